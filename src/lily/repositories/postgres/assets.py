"""Reads assets: as they are, as they were, and how they became so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from lily.domain.assets import Field
from lily.repositories.postgres.pool import Database, Row
from lily.repositories.postgres.queries import load

_QUERIES = load("assets.sql")


@dataclass(frozen=True, slots=True)
class StoredAsset:
    """A visible asset; `document` is its JSON text, as every interface shows it."""

    version: int
    asset_type: str
    document: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page of history ended."""

    version: int
    seq: int


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of an asset's history; `asset` is the document after it, None if it changed nothing shown."""

    place: Place
    event_id: UUID
    event_time: datetime
    applied_at: datetime
    outcome: str
    actor: str
    changed: list[str]
    asset: dict[str, Any] | None


class PostgresAssets:
    """The assets of every tenant; each question names the tenant it is asked for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, tenant_id: str, asset_id: str) -> StoredAsset | None:
        rows = await self._database.fetch(
            _QUERIES["find_asset"], {"tenant_id": tenant_id, "asset_id": asset_id}
        )
        return StoredAsset(*rows[0]) if rows else None

    async def find_as_of(self, tenant_id: str, asset_id: str, as_of: datetime) -> StoredAsset | None:
        rows = await self._database.fetch(
            _QUERIES["find_asset_as_of"], {"tenant_id": tenant_id, "asset_id": asset_id, "as_of": as_of}
        )
        return StoredAsset(*rows[0]) if rows and rows[0][2] is not None else None

    async def history(self, tenant_id: str, asset_id: str, before: Place | None, limit: int) -> list[Change]:
        """At most `limit` changes a reader could notice, newest first."""
        rows = await self._database.fetch(
            _QUERIES["list_history"],
            {
                "tenant_id": tenant_id,
                "asset_id": asset_id,
                "before_version": before.version if before else None,
                "before_seq": before.seq if before else None,
                "limit": limit,
            },
        )
        return [_change(row) for row in rows]


def _change(row: Row) -> Change:
    version, seq, event_id, event_time, applied_at, outcome, actor, fields, asset = row
    return Change(
        place=Place(version, seq),
        event_id=event_id,
        event_time=event_time,
        applied_at=applied_at,
        outcome=outcome,
        actor=actor,
        changed=field_names(fields),
        asset=asset,
    )


def field_names(fields: int) -> list[str]:
    """The names of the fields in a stored set, as the asset document spells them."""
    names = [str(field.name).lower() for field in Field if field & fields]
    return sorted({"tags" if name in ("source_tags", "user_tags") else name for name in names})
