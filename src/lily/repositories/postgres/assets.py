"""Reads assets: as they are, as they were, and how they became so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from lily.domain.assets import Traits
from lily.domain.tags import SPREADING
from lily.repositories.postgres.pool import Database, Row
from lily.repositories.postgres.queries import load

_QUERIES = load("assets.sql")


@dataclass(frozen=True, slots=True)
class StoredAsset:
    """A visible asset; `document` is its JSON text, as every interface shows it."""

    version: int
    document: str
    traits: Traits
    #: Whether any asset of the tenant has an open incident; mostly none has: nothing to look for.
    incidents_about: bool = False

    @property
    def asset_type(self) -> str:
        return self.traits.asset_type

    @property
    def entity_tag(self) -> str:
        """Another one whenever the document is another: tags come and go along lineage within a version."""
        in_force = self.document.rpartition('"effective_tags"')[2]
        tags = json.loads(f'{{"tags"{in_force}')["tags"] if in_force else []
        fields = any(tag.startswith(SPREADING) for tag in self.traits.further_tags)
        if set(tags) == self.traits.source_tags | self.traits.user_tags and not fields:
            return f'"{self.version}"'
        return f'"{self.version}.{sha256(in_force.encode()).hexdigest()[:8]}"'


@dataclass(frozen=True, slots=True)
class KnownAsset:
    """An asset that may not be visible yet: one that was spoken about before it was created."""

    is_visible: bool
    traits: Traits


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page of history ended."""

    version: int
    seq: int


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of an asset's history; `asset` is the document after it, None if it changed nothing shown.

    `further_tags` were effective then, though not part of the document.
    """

    place: Place
    event_id: UUID
    event_time: datetime
    applied_at: datetime
    outcome: str
    actor: str
    changed: list[str]
    asset: dict[str, Any] | None
    further_tags: list[str]


class PostgresAssets:
    """The assets of every tenant; each question names the tenant it is asked for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, tenant_id: str, asset_id: str) -> StoredAsset | None:
        rows = await self._database.fetch(
            _QUERIES["find_asset"], {"tenant_id": tenant_id, "asset_id": asset_id}
        )
        return _stored(rows[0]) if rows else None

    async def traits(self, tenant_id: str, asset_ids: Sequence[str]) -> dict[str, KnownAsset]:
        """What is known of these assets, also of those that were only spoken about."""
        rows = await self._database.fetch(
            _QUERIES["list_traits"], {"tenant_id": tenant_id, "asset_ids": list(asset_ids)}
        )
        return {row[1]: KnownAsset(row[0], _traits(row[1:])) for row in rows}

    async def containers(self, tenant_id: str, asset_ids: Sequence[str]) -> dict[str, frozenset[str]]:
        """For each asset that is contained in others all of them, at any depth."""
        rows = await self._database.fetch(
            _QUERIES["list_containers"], {"tenant_id": tenant_id, "asset_ids": list(asset_ids)}
        )
        return {asset_id: frozenset(containers) for asset_id, containers in rows}

    async def find_as_of(self, tenant_id: str, asset_id: str, as_of: datetime) -> StoredAsset | None:
        rows = await self._database.fetch(
            _QUERIES["find_asset_as_of"], {"tenant_id": tenant_id, "asset_id": asset_id, "as_of": as_of}
        )
        return _stored(rows[0]) if rows and rows[0][1] is not None else None

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


def _stored(row: Row) -> StoredAsset:
    return StoredAsset(row[0], row[1], _traits(row[2:10]), *row[10:])


def _traits(row: Row) -> Traits:
    asset_id, asset_type, data_source, owner, source_tags, user_tags, further_tags, is_deleted = row
    return Traits(
        asset_id=asset_id,
        asset_type=asset_type or "",
        data_source=data_source or "",
        owner=owner or "",
        source_tags=frozenset(source_tags or ()),
        user_tags=frozenset(user_tags or ()),
        further_tags=frozenset(further_tags or ()),
        is_deleted=bool(is_deleted),
    )


def _change(row: Row) -> Change:
    version, seq, event_id, event_time, applied_at, outcome, actor, changed, asset, further_tags = row
    return Change(
        place=Place(version, seq),
        event_id=event_id,
        event_time=event_time,
        applied_at=applied_at,
        outcome=outcome,
        actor=actor,
        changed=changed,
        asset=asset,
        further_tags=further_tags,
    )
