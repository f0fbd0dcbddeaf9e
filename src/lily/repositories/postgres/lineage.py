"""Reads lineage: one question per hop for a whole frontier."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

from lily.domain.lineage import RelationshipType
from lily.repositories.postgres.edges import BETWEEN, Edges, parts
from lily.repositories.postgres.pool import Database, Row
from lily.repositories.postgres.queries import load

_QUERIES = load("lineage.sql")
ALL_TYPES = tuple(kind.value for kind in RelationshipType)


#: Edges that are looked for one by one in one statement.
_EDGES_AT_ONCE = 1000
#: For what is told of many nodes to all who ask: the rest of the pool is for everything else.
_NODE_CONNECTIONS = 3
_MANY_NODES = 500


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
class NodeDocuments:
    """JSON that lacks its end, of assets that there are; and the tags of all that have some."""

    tags: Mapping[str, set[str]]
    opened: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a traversal: from where, which way, over which edges, at what time."""

    frontier: Sequence[str]
    upstream: bool
    types: Sequence[str] = ALL_TYPES
    as_of: datetime | None = None
    most: int = 100_000
    #: Whether the edges come described; at a time they always do.
    is_described: bool = False


class PostgresLineage:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._turns = asyncio.Semaphore(_NODE_CONNECTIONS)

    async def step(self, tenant_id: str, hop: Hop) -> Edges:
        """The edges that leave the frontier, at most so many."""
        way = "upstream" if hop.upstream else "downstream"
        name = "edges_as_of" if hop.as_of else f"described_{way}" if hop.is_described else f"edges_{way}"
        asked: dict[str, Any] = {"tenant_id": tenant_id, "types": list(hop.types)}
        if hop.as_of:
            asked |= {"as_of": hop.as_of, "upstream": hop.upstream}
        edges = Edges()
        for some in parts(hop.frontier):
            asked |= {"frontier": some, "most": hop.most - len(edges)}
            rows = await self._database.fetch(_QUERIES[name], asked)
            edges.extend(Edges.read(rows[0]))
            if len(edges) >= hop.most:
                break
        return edges

    async def described(self, tenant_id: str, edges: Edges) -> Edges:
        """The same edges, described."""
        if edges.about or not edges:
            return edges
        found = Edges()
        for first in range(0, len(edges), _EDGES_AT_ONCE):
            some = edges.part(first, _EDGES_AT_ONCE)
            asked = {"tenant_id": tenant_id, **some.parameters()}
            ((about, asserted_at),) = await self._database.fetch(_QUERIES["describe_edges"], asked)
            some.about, some.asserted_at = about.split(BETWEEN), asserted_at.split(BETWEEN)
            found.extend(some)
        return found

    async def node_documents(self, tenant_id: str, asset_ids: Sequence[str]) -> NodeDocuments:
        """What is known of these as JSON."""
        found, tags = await self._about_nodes("node_documents", tenant_id, asset_ids)
        documents = NodeDocuments(tags=tags)
        for ids, opened in found:
            if ids:
                documents.opened.update(zip(ids.split(BETWEEN), opened.split(BETWEEN), strict=True))
        return documents

    async def nodes(self, tenant_id: str, asset_ids: Sequence[str]) -> dict[str, Node]:
        """What is known of each of these, in their order."""
        found, tags = await self._about_nodes("list_nodes", tenant_id, asset_ids)
        known = {row[0]: Node._make((*row, sorted(tags.get(row[0], ())))) for row in found}
        return {
            asset_id: known.get(asset_id) or Node(asset_id, tags=sorted(tags.get(asset_id, ())))
            for asset_id in asset_ids
        }

    async def _about_nodes(
        self, name: str, tenant_id: str, asset_ids: Sequence[str]
    ) -> tuple[list[Row], dict[str, set[str]]]:
        """What a statement tells of these, and the tags of all that have some.

        Of many, some at a time, on few connections; few do not wait for their turn.
        """
        texts = list(parts(asset_ids))
        turns = self._turns if len(asset_ids) > _MANY_NODES else nullcontext()

        async def ask(statement: str, some: str) -> list[Row]:
            async with turns:
                asked = {"tenant_id": tenant_id, "asset_ids": some}
                return await self._database.fetch(_QUERIES[statement], asked)

        told, tagged = await asyncio.gather(
            asyncio.gather(*(ask(name, some) for some in texts)),
            asyncio.gather(*(ask("list_node_tags", some) for some in texts)),
        )
        tags: dict[str, set[str]] = defaultdict(set)
        for asset_id, tag in chain.from_iterable(tagged):
            tags[asset_id].add(tag)
        return [*chain.from_iterable(told)], tags

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
        asked = {"tenant_id": tenant_id, **edges.parameters()}
        rows = await self._database.fetch(_QUERIES["edge_validity"], asked)
        return {(row[0], row[1], row[2]): row[3] for row in rows if row[3] is not None}
