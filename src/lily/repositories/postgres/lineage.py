"""Reads lineage: one question per hop for a whole frontier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lily.domain.lineage import RelationshipType
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load

_QUERIES = load("lineage.sql")
ALL_TYPES = tuple(kind.value for kind in RelationshipType)


@dataclass(frozen=True, slots=True)
class StoredEdge:
    from_id: str
    to_id: str
    relationship_type: str
    is_indirect: bool
    is_masking: bool
    subtype: str | None
    blocked_tags: list[str]
    sources: list[str]
    asserted_at: datetime

    @property
    def key(self) -> tuple[str, str, str]:
        return self.from_id, self.to_id, self.relationship_type


@dataclass(frozen=True, slots=True)
class Node:
    """What is shown of an asset on the way; `is_known` is false for one that is only an edge's end."""

    asset_id: str
    asset_name: str | None
    asset_type: str | None
    asset_owner: str | None
    data_source: str | None
    is_deleted: bool
    is_known: bool
    tags: list[str]


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a traversal: from where, which way, over which edges, at what time."""

    frontier: Sequence[str]
    upstream: bool
    types: Sequence[str] = ALL_TYPES
    as_of: datetime | None = None
    most: int = 100_000


class PostgresLineage:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def step(self, tenant_id: str, hop: Hop) -> list[StoredEdge]:
        """The edges that leave the frontier, at most so many."""
        name = "edges_as_of" if hop.as_of else "edges_upstream" if hop.upstream else "edges_downstream"
        asked: dict[str, Any] = {
            "tenant_id": tenant_id,
            "frontier": list(hop.frontier),
            "types": list(hop.types),
            "most": hop.most,
        }
        if hop.as_of:
            asked |= {"as_of": hop.as_of, "upstream": hop.upstream}
        return [StoredEdge(*row) for row in await self._database.fetch(_QUERIES[name], asked)]

    async def nodes(self, tenant_id: str, asset_ids: Sequence[str]) -> dict[str, Node]:
        asked = {"tenant_id": tenant_id, "asset_ids": list(asset_ids)}
        rows = await self._database.fetch(_QUERIES["list_nodes"], asked)
        return {row[0]: Node(*row) for row in rows}

    async def column(self, tenant_id: str, asset_id: str, column: str) -> str | None:
        asked = {"tenant_id": tenant_id, "asset_id": asset_id, "column": column}
        rows = await self._database.fetch(_QUERIES["find_column"], asked)
        return rows[0][0] if rows else None

    async def columns(self, tenant_id: str, tables: Sequence[str]) -> dict[str, dict[str, str]]:
        """For each table the ids of its columns by their names in lower case."""
        asked = {"tenant_id": tenant_id, "asset_ids": list(tables)}
        found: dict[str, dict[str, str]] = {}
        for table, name, asset_id in await self._database.fetch(_QUERIES["list_columns"], asked):
            found.setdefault(table, {})[name.lower()] = asset_id
        return found

    async def validity(
        self, tenant_id: str, edges: Sequence[StoredEdge]
    ) -> dict[tuple[str, str, str], datetime]:
        """Since when each edge is there without interruption."""
        asked = {
            "tenant_id": tenant_id,
            "from_ids": [edge.from_id for edge in edges],
            "to_ids": [edge.to_id for edge in edges],
            "types": [edge.relationship_type for edge in edges],
        }
        rows = await self._database.fetch(_QUERIES["edge_validity"], asked)
        return {(row[0], row[1], row[2]): row[3] for row in rows if row[3] is not None}
