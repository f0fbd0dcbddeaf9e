"""The people and groups of a tenant: found, made, changed and removed, one version after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

import psycopg
from psycopg.types.json import Jsonb

from lily.domain.errors import AlreadyExists, InvalidInput
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load

_QUERIES = load("directory.sql")
#: An id and the name it goes by.
Named = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which entries: all, or those that equal every value given."""

    id: str | None = None
    name: str | None = None
    external_id: str | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """What a user and a group have in common."""

    id: str
    name: str
    external_id: str | None
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class UserRow(Slot):
    active: bool
    document: Mapping[str, Any]
    groups: Sequence[Named]


@dataclass(frozen=True, slots=True)
class GroupRow(Slot):
    members: Sequence[Named]


@dataclass(frozen=True, slots=True)
class UserData:
    """What is to be known about a user; a `password_hash` of None leaves the password as it is."""

    name: str
    external_id: str | None
    active: bool
    document: Mapping[str, Any]
    password_hash: str | None = None
    roles: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class GroupData:
    name: str
    external_id: str | None
    #: The name of a member in this group, by the member's id; None is the user's own.
    members: Mapping[str, str | None]


class Directory:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def users(
        self, tenant_id: str, selection: Selection, offset: int, limit: int
    ) -> tuple[int, list[UserRow]]:
        """How many match, and that part of them, in the order they came."""
        total, rows = await self._page("users", tenant_id, selection, offset, limit)
        return total, [UserRow(*row) for row in rows]

    async def groups(
        self, tenant_id: str, selection: Selection, offset: int, limit: int
    ) -> tuple[int, list[GroupRow]]:
        total, rows = await self._page("groups", tenant_id, selection, offset, limit)
        return total, [GroupRow(*row) for row in rows]

    async def create_user(self, tenant_id: str, data: UserData) -> str:
        """The new user's id; `AlreadyExists` when the name is taken."""
        values = {"tenant_id": tenant_id, "roles": list(data.roles), **_user_values(data)}
        return str(await self._write(_QUERIES["create_user"], values, data.name))

    async def update_user(self, tenant_id: str, user_id: str, version: int, data: UserData) -> bool:
        """False when the user is no longer at that version."""
        values = {"tenant_id": tenant_id, "id": user_id, "version": version, **_user_values(data)}
        return await self._write(_QUERIES["update_user"], values, data.name) is not None

    async def delete_user(self, tenant_id: str, user_id: str, version: int) -> bool:
        values = {"tenant_id": tenant_id, "id": user_id, "version": version}
        return await self._write(_QUERIES["delete_user"], values, "") is not None

    async def create_group(self, tenant_id: str, data: GroupData) -> str:
        values = {"tenant_id": tenant_id, **_group_values(data)}
        return str(await self._write(_QUERIES["create_group"], values, data.name))

    async def update_group(self, tenant_id: str, group_id: str, version: int, data: GroupData) -> bool:
        values = {"tenant_id": tenant_id, "id": group_id, "version": version, **_group_values(data)}
        return await self._write(_QUERIES["update_group"], values, data.name) is not None

    async def delete_group(self, tenant_id: str, group_id: str, version: int) -> bool:
        values = {"tenant_id": tenant_id, "id": group_id, "version": version}
        return await self._write(_QUERIES["delete_group"], values, "") is not None

    async def people(self, tenant_id: str) -> list[tuple[str, list[str], list[str]]]:
        """The name of everybody who is active, the roles that are their own, and their groups."""
        rows = await self._database.fetch(_QUERIES["list_people"], {"tenant_id": tenant_id})
        return [(name, list(roles), list(groups)) for name, roles, groups in rows]

    async def group_roles(self, tenant_id: str) -> dict[str, list[str]]:
        """The roles of every group that has any."""
        rows = await self._database.fetch(_QUERIES["list_group_roles"], {"tenant_id": tenant_id})
        return {name: list(roles) for name, roles in rows}

    async def set_group_roles(self, tenant_id: str, group_name: str, roles: Sequence[str]) -> None:
        values = {"tenant_id": tenant_id, "name": group_name, "roles": list(roles)}
        await self._database.fetch(_QUERIES["set_group_roles"], values)

    async def set_user_roles(self, tenant_id: str, user_id: str, roles: Sequence[str]) -> bool:
        values = {"tenant_id": tenant_id, "id": user_id, "roles": list(roles)}
        return bool(await self._database.fetch(_QUERIES["set_user_roles"], values))

    async def _page(
        self, kind: str, tenant_id: str, selection: Selection, offset: int, limit: int
    ) -> tuple[int, list[Any]]:
        values = {
            "tenant_id": tenant_id,
            "id": selection.id,
            "name": selection.name,
            "external_id": selection.external_id,
        }
        [(total,)] = await self._database.fetch(_QUERIES[f"count_{kind}"], values)
        if not total or not limit:
            return total, []
        page = {**values, "offset": offset, "limit": limit}
        return total, await self._database.fetch(_QUERIES[f"list_{kind}"], page)

    async def _write(self, statement: LiteralString, values: Mapping[str, Any], name: str) -> str | None:
        try:
            rows = await self._database.fetch(statement, values)
        except psycopg.errors.UniqueViolation:
            raise AlreadyExists(f"the name {name!r} is taken") from None
        except psycopg.errors.ForeignKeyViolation:
            raise InvalidInput("a member is not a user of this tenant") from None
        return str(rows[0][0]) if rows else None


def _user_values(data: UserData) -> dict[str, Any]:
    return {
        "name": data.name,
        "external_id": data.external_id,
        "active": data.active,
        "document": Jsonb(data.document),
        "password_hash": data.password_hash,
    }


def _group_values(data: GroupData) -> dict[str, Any]:
    return {
        "name": data.name,
        "external_id": data.external_id,
        "members": list(data.members),
        "displays": list(data.members.values()),
    }
