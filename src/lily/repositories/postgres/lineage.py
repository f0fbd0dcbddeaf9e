"""Reads lineage: one question per hop for a whole frontier."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from lily.domain.lineage import RelationshipType
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load

_QUERIES = load("lineage.sql")
ALL_TYPES = tuple(kind.value for kind in RelationshipType)
#: Ids asked for in one statement: few enough that it never pays to read a whole table instead.
_AT_ONCE = 2000


class StoredEdge(NamedTuple):
    from_id: str
    to_id: str
    relationship_type: str
    shown: str  # the edge as JSON, as every interface shows it

    @property
    def key(self) -> tuple[str, str, str]:
        return self[:3]


class Node(NamedTuple):
    """What is shown of an asset on the way; `is_known` is false for one that is only an edge's end."""

    asset_id: str
    asset_name: str | None = None
    asset_type: str | None = None
    asset_owner: str | None = None
    data_source: str | None = None
    is_deleted: bool = False
    is_known: bool = False
    tags: Sequence[str] = ()


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
        asked: dict[str, Any] = {"tenant_id": tenant_id, "types": list(hop.types)}
        if hop.as_of:
            asked |= {"as_of": hop.as_of, "upstream": hop.upstream}
        edges: list[StoredEdge] = []
        for some in _parts(hop.frontier):
            asked |= {"frontier": some, "most": hop.most - len(edges)}
            edges += map(StoredEdge._make, await self._database.fetch(_QUERIES[name], asked))
            if len(edges) >= hop.most:
                break
        return edges

    async def nodes(self, tenant_id: str, asset_ids: Sequence[str]) -> dict[str, Node]:
        """What is known of each of these, in their order."""
        tags: dict[str, set[str]] = defaultdict(set)
        known: dict[str, Node] = {}
        for some in _parts(asset_ids):
            asked = {"tenant_id": tenant_id, "asset_ids": some}
            for asset_id, tag in await self._database.fetch(_QUERIES["list_node_tags"], asked):
                tags[asset_id].add(tag)
            for row in await self._database.fetch(_QUERIES["list_nodes"], asked):
                known[row[0]] = Node._make((*row, sorted(tags[row[0]]) if row[0] in tags else ()))
        return {
            asset_id: known.get(asset_id) or Node(asset_id, tags=sorted(tags.get(asset_id, ())))
            for asset_id in asset_ids
        }

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


def _parts(ids: Sequence[str]) -> Iterator[str]:
    """In the order of the index, a bounded number at a time, as one text: an array takes longer to write."""
    ordered = sorted(ids)
    for first in range(0, len(ordered), _AT_ONCE):
        yield "\x1f".join(ordered[first : first + _AT_ONCE])
