"""Who is known to a tenant, and which of their sessions and tokens are still good."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load
from lily.repositories.postgres.tasks import beside, forget_forever

_QUERIES = load("identity.sql")


@dataclass(frozen=True, slots=True)
class Person:
    """`active` is None for somebody who has no row: an identity provider may vouch for them."""

    active: bool | None
    roles: frozenset[str]
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class Password:
    user_id: str
    user_name: str
    password_hash: str | None


@dataclass(frozen=True, slots=True)
class Session:
    """An open session; `scopes` None does not narrow."""

    tenant_id: str
    user_id: str | None
    subject: str
    roles: Sequence[str] = ()
    groups: Sequence[str] = ()
    scopes: Sequence[str] | None = None
    expires: float = 0.0
    session_id: str = ""


class Identities:
    """Answers are what is committed now; nothing is remembered here."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def person(
        self, tenant_id: str, subject: str, user_id: str | None = None, groups: Sequence[str] = ()
    ) -> Person:
        """The person with this id, else of this name, with the roles of their groups and of `groups`."""
        values = {"tenant_id": tenant_id, "subject": subject, "user_id": user_id, "groups": list(groups)}
        [(active, roles, names, group_roles)] = await self._database.fetch(_QUERIES["find_person"], values)
        return Person(active, frozenset([*roles, *group_roles]), frozenset(names))

    async def password_of(self, tenant_id: str, user_name: str) -> Password | None:
        """Of an active person."""
        values = {"tenant_id": tenant_id, "user_name": user_name}
        rows = await self._database.fetch(_QUERIES["find_password"], values)
        return Password(*rows[0]) if rows else None

    async def open_session(self, session: Session, seconds: float, token_hash: bytes | None) -> str:
        """The id of a new session that lasts that long; `token_hash` is of its first refresh token."""
        values = {
            "tenant_id": session.tenant_id,
            "user_id": session.user_id,
            "subject": session.subject,
            "roles": list(session.roles),
            "groups": list(session.groups),
            "scopes": None if session.scopes is None else list(session.scopes),
            "seconds": seconds,
            "token_hash": token_hash,
        }
        [(session_id,)] = await self._database.fetch(_QUERIES["open_session"], values)
        return str(session_id)

    async def session(self, tenant_id: str, session_id: str) -> Session | None:
        """The session, unless it was revoked or has expired."""
        values = {"tenant_id": tenant_id, "session_id": session_id}
        rows = await self._database.fetch(_QUERIES["find_session"], values)
        if not rows:
            return None
        user_id, subject, roles, groups, scopes, expires = rows[0]
        return Session(tenant_id, user_id, subject, roles, groups, scopes, expires, session_id)

    async def rotate(self, tenant_id: str, token_hash: bytes, next_hash: bytes) -> str | None:
        """Use up a refresh token for the next; the session's id, or None when it is not good."""
        values = {"tenant_id": tenant_id, "token_hash": token_hash, "next_hash": next_hash}
        rows = await self._database.fetch(_QUERIES["rotate_refresh_token"], values)
        return str(rows[0][0]) if rows else None

    async def revoke_family(self, tenant_id: str, token_hash: bytes) -> bool:
        """End the session of a refresh token that was used before; false when it never was."""
        values = {"tenant_id": tenant_id, "token_hash": token_hash}
        return bool(await self._database.fetch(_QUERIES["revoke_family"], values))

    async def revoke_session(self, tenant_id: str, session_id: str) -> None:
        values = {"tenant_id": tenant_id, "session_id": session_id}
        await self._database.fetch(_QUERIES["revoke_session"], values)

    async def revoke_token(self, tenant_id: str, credential_id: str, expires: float) -> None:
        values = {"tenant_id": tenant_id, "credential_id": credential_id, "expires": expires}
        await self._database.fetch(_QUERIES["revoke_token"], values)

    async def is_revoked(self, tenant_id: str, credential_id: str) -> bool:
        values = {"tenant_id": tenant_id, "credential_id": credential_id}
        [(revoked,)] = await self._database.fetch(_QUERIES["is_revoked"], values)
        return bool(revoked)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Forget now and then what can no longer be used, while the context is open."""
        async with beside(forget_forever(self._database, _QUERIES["forget_identity"], {})):
            yield
