"""Connectors as PostgreSQL keeps them, with their secrets encrypted; every change announces itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from pydantic_core import to_json

from lily.domain.connectors import Connector
from lily.domain.errors import AlreadyExists, StillInUse
from lily.repositories.postgres.pool import Connection, Database, Row
from lily.repositories.postgres.queries import load
from lily.repositories.postgres.secrets import PostgresSecrets, SecretName

#: The kind of the announcement that tells of a change; its key is the connector's id.
ANNOUNCED = "connector"
_QUERIES = load("connectors.sql")


@dataclass(frozen=True, slots=True)
class NewConnector:
    """What is asked for; `secrets` by name."""

    type: str
    name: str
    config: Mapping[str, Any]
    secrets: Mapping[str, str]
    created_by: str


@dataclass(frozen=True, slots=True)
class ConnectorChange:
    """What is to be different; None leaves as it is, and so does a secret that is not named. None as a
    secret forgets it."""

    name: str | None = None
    config: Mapping[str, Any] | None = None
    is_disabled: bool | None = None
    secrets: Mapping[str, str | None] | None = None


class PostgresConnectors:
    def __init__(self, database: Database, secrets: PostgresSecrets) -> None:
        self._database = database
        self._secrets = secrets

    async def add(self, tenant_id: str, new: NewConnector) -> Connector:
        """The new connector; `AlreadyExists` when one has that name."""
        values = {
            "tenant_id": tenant_id,
            "type": new.type,
            "name": new.name,
            "config": to_json(new.config).decode(),
            "created_by": new.created_by,
        }
        async with self._database.transaction(tenant_id) as connection:
            row = await (await connection.execute(_QUERIES["insert_connector"], values)).fetchone()
            if row is None:
                raise _name_taken(new.name)
            await self._put_secrets(connection, (tenant_id, row[0]), new.secrets)
        return await self._read(tenant_id, row[0])

    async def change(self, tenant_id: str, connector_id: str, change: ConnectorChange) -> Connector | None:
        """The connector as it is now; None when there is none."""
        values = {
            "tenant_id": tenant_id,
            "connector_id": connector_id,
            "name": change.name,
            "config": None if change.config is None else to_json(change.config).decode(),
            "is_disabled": change.is_disabled,
        }
        try:
            async with self._database.transaction(tenant_id) as connection:
                row = await (await connection.execute(_QUERIES["update_connector"], values)).fetchone()
                if row is None:
                    return None
                await self._put_secrets(connection, (tenant_id, connector_id), change.secrets or {})
        except psycopg.errors.UniqueViolation:
            raise _name_taken(change.name or "") from None
        return await self._read(tenant_id, connector_id)

    async def find(self, tenant_id: str, connector_id: str) -> Connector | None:
        found = await self._list(tenant_id, connector_id)
        return found[0] if found else None

    async def list(self, tenant_id: str) -> Sequence[Connector]:
        """By name, at most 1,000."""
        return await self._list(tenant_id, None)

    async def everywhere(self, types: Iterable[str]) -> Sequence[Connector]:
        """The connectors of these types of all tenants, for a process that works for all of them."""
        rows = await self._database.fetch(_QUERIES["list_connectors_everywhere"], {"types": list(types)})
        return [_connector(row) for row in rows]

    async def secrets_of(self, connector: Connector) -> dict[str, str]:
        """What it logs in with, by name; `SecretUnreadable` when the ring cannot decrypt one."""
        found = {}
        for name in connector.secrets:
            place = _place(connector.tenant_id, connector.connector_id, name)
            value = await self._secrets.get(place)
            if value is not None:
                found[name] = value.decode()
        return found

    async def remove(self, tenant_id: str, connector_id: str, *, abandon: bool = False) -> bool:
        """Whether it was there; its secrets are gone with it. `StillInUse` while its database is protected:
        without them nobody could take that back; `abandon` leaves it as it is."""
        values = {"tenant_id": tenant_id, "connector_id": connector_id}
        if not abandon and await self._database.fetch(_QUERIES["is_enforced"], values):
            raise StillInUse(
                "its database is protected, which nobody could take back without it; PATCH it with"
                ' "enforce": false in its config, wait until `lily enforce status` says released, and remove'
                " it then; if the database is gone, abandon it: ?abandon=true, or --abandon"
            )
        return bool(await self._database.fetch(_QUERIES["delete_connector"], values))

    async def _list(self, tenant_id: str, connector_id: str | None) -> Sequence[Connector]:
        values = {"tenant_id": tenant_id, "connector_id": connector_id}
        rows = await self._database.fetch(_QUERIES["list_connectors"], values)
        return [_connector(row) for row in rows]

    async def _read(self, tenant_id: str, connector_id: str) -> Connector:
        [found] = await self._list(tenant_id, connector_id)
        return found

    async def _put_secrets(
        self, connection: Connection, owner: tuple[str, str], secrets: Mapping[str, str | None]
    ) -> None:
        for name, value in secrets.items():
            place = _place(*owner, name)
            if value is None:
                await self._secrets.delete_within(connection, place)
            else:
                await self._secrets.put_within(connection, place, value.encode())


def _place(tenant_id: str, connector_id: str, name: str) -> SecretName:
    return SecretName(tenant_id, f"connector/{connector_id}", name)


def _connector(row: Row) -> Connector:
    values = [*row]
    values[6] = tuple(row[6])
    return Connector(*values)


def _name_taken(name: str) -> AlreadyExists:
    return AlreadyExists(f"there is a connector {name!r} already; remove it or take another name")
