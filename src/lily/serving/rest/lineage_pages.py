"""A page of lineage as JSON, most of it written while the rest is still being walked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from fastapi.responses import Response
from pydantic_core import to_json

from lily.access.calls import Call
from lily.repositories.postgres.edges import Edges, in_rows
from lily.repositories.postgres.lineage import Node, NodeDocuments, PostgresLineage
from lily.serving.lineage import Walked

#: Edges that are put into words before others have their turn: about a millisecond.
_SHOWN_AT_ONCE = 2_000
#: Of a page of so many edges it is told since when each is there.
MOST_DATED = 1_000


@dataclass(frozen=True, slots=True)
class Shown:
    """Some edges and assets, each list as JSON without its brackets."""

    nodes: bytes
    relationships: bytes


@dataclass(slots=True)
class PageWriter:
    """Writes the edges of a walk from one number on, and the assets they are between.

    While PostgreSQL looks for the next hop, what the hops before it found is put into words.
    """

    lineage: PostgresLineage
    call: Call
    start: str
    found: Walked
    first: int
    size: int
    _taken: int = 0
    _nodes: set[str] = field(default_factory=set)
    _parts: list[asyncio.Task[Shown]] = field(default_factory=list)

    async def go_on(self) -> None:
        """Begin with what was found meanwhile, if it is worth it; one part after the other."""
        while self._waiting() >= _SHOWN_AT_ONCE:
            if self._parts:
                await self._parts[-1]
            self._begin(_SHOWN_AT_ONCE, is_dated=False)

    async def finish(self, *, is_dated: bool) -> list[Shown]:
        """All of it; with the time since when each edge is there, if they are few."""
        await self.go_on()
        rest = max(self._waiting(), 0)
        self._begin(rest, is_dated=is_dated and not self._parts and rest <= MOST_DATED)
        return await asyncio.gather(*self._parts)

    def cancel(self) -> None:
        for part in self._parts:
            part.cancel()

    def _waiting(self) -> int:
        return min(len(self.found.edges) - self.first, self.size) - self._taken

    def _begin(self, count: int, *, is_dated: bool) -> None:
        edges = self.found.edges.part(self.first + self._taken, count)
        start = [] if self.first or self._parts else [self.start]
        ends = dict.fromkeys(chain(start, edges.from_ids, edges.to_ids))
        new = [end for end in ends if end not in self._nodes]
        self._taken += len(edges)
        self._nodes.update(new)
        self._parts.append(asyncio.create_task(self._shown(edges, new, is_dated)))

    async def _shown(self, edges: Edges, ends: list[str], is_dated: bool) -> Shown:
        nodes, described = await asyncio.gather(
            self.lineage.node_documents(self.call.tenant_id, ends),
            self.lineage.described(self.call.tenant_id, edges),
        )
        since = await self._since(edges) if is_dated else None
        self.call.notebook.note_shown([end for end in ends if end in nodes.tags], "lineage")
        relationships = described.json(since).encode()
        await asyncio.sleep(0)  # others have their turn
        return Shown(_nodes_json(nodes, ends, self.found.depths).encode(), relationships)

    async def _since(self, edges: Edges) -> list[str]:
        """Since when each edge is there, as the end of its document."""
        known = await self.lineage.validity(self.call.tenant_id, edges)
        times = map(known.get, edges)
        return [f',"valid_from":"{time.isoformat()}"' if time else "" for time in times]


def node_document(node: Node, depth: int) -> dict[str, Any]:
    return {
        "asset_id": node.asset_id,
        "asset_name": node.asset_name,
        "asset_type": node.asset_type,
        "asset_owner": node.asset_owner,
        "data_source": node.data_source,
        "is_deleted": node.is_deleted,
        "is_known": node.is_known,
        "tags": node.tags,
        "depth": depth,
    }


def answer_with(content: dict[str, Any], **lists: Iterable[bytes]) -> Response:
    """Content with lists, of which each part is JSON already but for its brackets."""
    written = [to_json(content)[:-1]]
    for name, parts in lists.items():
        written += [f',"{name}":['.encode(), b",".join(filter(None, parts)), b"]"]
    return Response(b"".join((*written, b"}")), media_type="application/json")


def _nodes_json(nodes: NodeDocuments, ends: list[str], depths: Mapping[str, int]) -> str:
    """Each as `node_document`, a list without its brackets."""
    opened = [nodes.opened.get(end) or _opened(end) for end in ends]
    tags = [to_json(sorted(nodes.tags[end])).decode() if end in nodes.tags else "[]" for end in ends]
    steps = list(map(str, map(depths.__getitem__, ends)))
    return in_rows(",", (opened, ',"tags":'), (tags, ',"depth":'), (steps, "}"))[1:]


def _opened(asset_id: str) -> str:
    """The document of what is only an edge's end, up to its tags."""
    *until_tags, _, _ = node_document(Node(asset_id), 0).items()
    return to_json(dict(until_tags))[:-1].decode()
