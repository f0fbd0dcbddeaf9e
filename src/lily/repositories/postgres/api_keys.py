"""Keys of machines, known by the hash of their secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load

_QUERIES = load("api_keys.sql")


@dataclass(frozen=True, slots=True)
class NewKey:
    """What is asked for; `scopes` None does not narrow.

    What is forbidden to its owner's roles and groups (these, and those in the directory) is forbidden to it.
    """

    name: str
    owner: str
    roles: Sequence[str]
    scopes: Sequence[str] | None
    seconds: float
    owner_roles: Sequence[str] = ()
    owner_groups: Sequence[str] = ()
    #: Those of the owner's roles that are not in the directory.
    vouched_roles: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ApiKey:
    key_id: str
    name: str
    owner: str
    roles: Sequence[str]
    scopes: Sequence[str] | None
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class UsableKey:
    """A key whose secret was shown; `expires` in seconds since the epoch."""

    name: str
    owner: str
    roles: Sequence[str]
    scopes: Sequence[str] | None
    expires: float
    owner_roles: Sequence[str]
    owner_groups: Sequence[str]
    vouched_roles: Sequence[str]


class ApiKeys:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, tenant_id: str, new: NewKey, secret_hash: bytes) -> ApiKey | None:
        """The new key, or None when one of that name is in use."""
        values = {
            "tenant_id": tenant_id,
            "name": new.name,
            "owner": new.owner,
            "secret_hash": secret_hash,
            "roles": list(new.roles),
            "scopes": None if new.scopes is None else list(new.scopes),
            "seconds": new.seconds,
            "owner_roles": sorted(new.owner_roles),
            "owner_groups": sorted(new.owner_groups),
            "vouched_roles": sorted(new.vouched_roles),
        }
        rows = await self._database.fetch(_QUERIES["create_key"], values)
        return ApiKey(*rows[0]) if rows else None

    async def use(self, tenant_id: str, key_id: str, secret_hash: bytes) -> UsableKey | None:
        """The key, when the secret is its own and it is neither revoked nor expired."""
        values = {"tenant_id": tenant_id, "key_id": key_id, "secret_hash": secret_hash}
        rows = await self._database.fetch(_QUERIES["use_key"], values)
        return UsableKey(*rows[0]) if rows else None

    async def list(self, tenant_id: str, owner: str | None) -> Sequence[ApiKey]:
        """Newest first, at most 1,000; those of everybody when `owner` is None."""
        rows = await self._database.fetch(_QUERIES["list_keys"], {"tenant_id": tenant_id, "owner": owner})
        return [ApiKey(*row) for row in rows]

    async def find(self, tenant_id: str, key_id: str) -> ApiKey | None:
        rows = await self._database.fetch(_QUERIES["find_key"], {"tenant_id": tenant_id, "key_id": key_id})
        return ApiKey(*rows[0]) if rows else None

    async def revoke(self, tenant_id: str, key_id: str) -> None:
        """Ends the key; one that has ended stays as it is."""
        await self._database.fetch(_QUERIES["revoke_key"], {"tenant_id": tenant_id, "key_id": key_id})
