"""Reads lineage: one question per hop for a whole frontier."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import compress
from typing import Any, NamedTuple

from lily.domain.lineage import RelationshipType
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load

_QUERIES = load("lineage.sql")
ALL_TYPES = tuple(kind.value for kind in RelationshipType)
#: Ids asked for in one statement: few enough that it never pays to read a whole table instead.
_AT_ONCE = 2000
#: Separates ids and documents in one long text: no id and no JSON has it.
_BETWEEN = "\x1f"


class StoredEdge(NamedTuple):
    from_id: str
    to_id: str
    relationship_type: str
    shown: str  # the edge as JSON, as every interface shows it

    @property
    def key(self) -> tuple[str, str, str]:
        return self[:3]


@dataclass(slots=True)
class Edges:
    """Edges as columns, in the order they were found: of very many, few are looked at one by one."""

    from_ids: list[str] = field(default_factory=list)
    to_ids: list[str] = field(default_factory=list)
    relationship_types: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, columns: Sequence[str | None]) -> Edges:
        """What a question about edges is answered with: one long text per column, or nothing."""
        return cls(*(column.split(_BETWEEN) if column else [] for column in columns))

    def __len__(self) -> int:
        return len(self.shown)

    def __iter__(self) -> Iterator[StoredEdge]:
        return map(StoredEdge._make, zip(*self._columns(), strict=True))

    def extend(self, more: Edges) -> None:
        for column, rest in zip(self._columns(), more._columns(), strict=True):
            column += rest

    def part(self, first: int, size: int) -> Edges:
        return Edges(*(column[first : first + size] for column in self._columns()))

    def where(self, holds: Iterable[bool]) -> Edges:
        """Those of them for which it holds."""
        chosen = list(holds)
        return Edges(*(list(compress(column, chosen)) for column in self._columns()))

    def each_key(self) -> Iterator[tuple[str, str, str]]:
        return zip(self.from_ids, self.to_ids, self.relationship_types, strict=True)

    def _columns(self) -> tuple[list[str], ...]:
        return self.from_ids, self.to_ids, self.relationship_types, self.shown


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

    async def step(self, tenant_id: str, hop: Hop) -> Edges:
        """The edges that leave the frontier, at most so many."""
        name = "edges_as_of" if hop.as_of else "edges_upstream" if hop.upstream else "edges_downstream"
        asked: dict[str, Any] = {"tenant_id": tenant_id, "types": list(hop.types)}
        if hop.as_of:
            asked |= {"as_of": hop.as_of, "upstream": hop.upstream}
        edges = Edges()
        for some in _parts(hop.frontier):
            asked |= {"frontier": some, "most": hop.most - len(edges)}
            edges.extend(Edges.read((await self._database.fetch(_QUERIES[name], asked))[0]))
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

    async def validity(self, tenant_id: str, edges: Edges) -> dict[tuple[str, str, str], datetime]:
        """Since when each edge is there without interruption."""
        asked = {
            "tenant_id": tenant_id,
            "from_ids": edges.from_ids,
            "to_ids": edges.to_ids,
            "types": edges.relationship_types,
        }
        rows = await self._database.fetch(_QUERIES["edge_validity"], asked)
        return {(row[0], row[1], row[2]): row[3] for row in rows if row[3] is not None}


def _parts(ids: Sequence[str]) -> Iterator[str]:
    """In the order of the index, a bounded number at a time, as one text: an array takes longer to write."""
    ordered = sorted(ids)
    for first in range(0, len(ordered), _AT_ONCE):
        yield _BETWEEN.join(ordered[first : first + _AT_ONCE])
