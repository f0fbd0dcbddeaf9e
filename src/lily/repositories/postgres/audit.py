"""Reads the audit: pages for auditors, and whole chains for exports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load

_SQL = load("audit.sql")
_NEWEST, _OLDEST, _OF_ASSET = (
    _SQL[name].format(entries=_SQL["entries"], wanted=_SQL["wanted"], about=_SQL["about"])
    for name in ("list_newest", "list_oldest", "list_of_asset")
)
_PAGE = 1000
#: Newer than every entry.
_END = (1 << 63) - 1


class RecordedEntry(NamedTuple):
    """An entry with its place in the chain."""

    seq: int
    at: datetime
    actor: str
    acting_as: str
    address: str
    action: str
    resource_kind: str
    resource_id: str
    allowed: bool
    reason: str
    trace_id: str
    event_id: UUID | None
    events: int
    hash: bytes

    def document(self) -> dict[str, Any]:
        """The entry as every interface shows it."""
        event_id = str(self.event_id) if self.event_id else None
        return self._asdict() | {"at": self.at.isoformat(), "event_id": event_id, "hash": self.hash.hex()}


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries; None lets everything through."""

    actor: str | None = None
    action: str | None = None
    resource_kind: str | None = None
    resource_id: str | None = None
    allowed: bool | None = None
    trace_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def parameters(self, tenant_id: str, place: int, limit: int) -> dict[str, Any]:
        chosen = {name: getattr(self, name) for name in self.__slots__}
        return chosen | {"tenant_id": tenant_id, "place": place, "limit": limit}


class AuditLog:
    """The entries of every tenant; each question names the tenant it is asked for.

    The audit of all cells is in the shared cell's database; what was written, in the tenant's own (`homes`).
    """

    def __init__(self, database: Database, homes: Database) -> None:
        self._database = database
        self._homes = homes

    async def newest(
        self, tenant_id: str, wanted: AuditFilter, before: int | None, limit: int
    ) -> list[RecordedEntry]:
        """At most `limit` entries, newest first."""
        return await self._fetch(_NEWEST, wanted.parameters(tenant_id, before or _END, limit))

    async def of_asset(
        self, tenant_id: str, asset_id: str, wanted: AuditFilter, before: int | None, limit: int
    ) -> list[RecordedEntry]:
        """The same for what concerns one asset, batches it was written in included."""
        wanted = replace(wanted, resource_id=asset_id)
        asked = {"tenant_id": tenant_id, "asset_id": asset_id}
        batches = [row[0] for row in await self._homes.fetch(_SQL["list_batches_of"], asked)]
        parameters = wanted.parameters(tenant_id, before or _END, limit) | {"batches": batches}
        return await self._fetch(_OF_ASSET, parameters)

    async def all(self, tenant_id: str, wanted: AuditFilter) -> AsyncIterator[list[RecordedEntry]]:
        """Every entry, oldest first, in pages; what is added meanwhile is seen too."""
        place = 0
        while page := await self._fetch(_OLDEST, wanted.parameters(tenant_id, place, _PAGE)):
            yield page
            place = page[-1].seq

    async def _fetch(self, query: LiteralString, parameters: dict[str, Any]) -> list[RecordedEntry]:
        return [RecordedEntry(*row) for row in await self._database.fetch(query, parameters)]


def read_all(url: str, tenant_id: str, wanted: AuditFilter) -> Iterator[list[RecordedEntry]]:
    """Every entry, oldest first, in pages; for operators."""
    place = 0
    with psycopg.connect(url, options="-c timezone=UTC", row_factory=tuple_row) as connection:
        while True:
            rows = connection.execute(_OLDEST, wanted.parameters(tenant_id, place, _PAGE))
            page = [RecordedEntry(*row) for row in rows]
            if not page:
                return
            yield page
            place = page[-1].seq
