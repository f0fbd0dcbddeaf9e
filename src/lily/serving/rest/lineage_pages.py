"""Answers about lineage as JSON; most of a large page is written while the rest is still being walked."""

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

#: Edges that are put into words before others have their turn: two or three milliseconds.
_SHOWN_AT_ONCE = 2_000
#: Of a page of so many edges it is told since when each is there.
_MOST_DATED = 1_000


@dataclass(frozen=True, slots=True)
class Shown:
    """Some assets and edges, each list as JSON without its brackets; and which of the assets have tags."""

    nodes: bytes
    relationships: bytes
    tagged: list[str]


@dataclass(slots=True)
class PageWriter:
    """Writes the edges of a walk from one number on, and the assets they are between.

    While PostgreSQL looks for the next hop, what the hops before it found is put into words, part by part.
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

    def go_on(self) -> None:
        """Begin with what was found meanwhile, if it is worth it; two parts are written at a time."""
        if self._waiting() >= _SHOWN_AT_ONCE and all(part.done() for part in self._parts[-2:-1]):
            self._begin(_SHOWN_AT_ONCE)

    async def finish(self, *, is_dated: bool) -> list[Shown]:
        """All of it; with the time since when each edge is there, if they are few."""
        is_dated &= not self._parts and 0 < self._waiting() <= _MOST_DATED
        while self._waiting() > 0 or not self._parts:
            await asyncio.gather(*self._parts[-2:-1])
            self._begin(min(max(self._waiting(), 0), _SHOWN_AT_ONCE), is_dated=is_dated)
        shown = await asyncio.gather(*self._parts)
        for part in shown:
            self.call.notebook.note_shown(part.tagged, "lineage")
            await asyncio.sleep(0)
        return shown

    async def close(self) -> None:
        """End what is still being written."""
        for part in self._parts:
            part.cancel()
        await asyncio.gather(*self._parts, return_exceptions=True)

    def _waiting(self) -> int:
        return min(len(self.found.edges) - self.first, self.size) - self._taken

    def _begin(self, count: int, *, is_dated: bool = False) -> None:
        edges = self.found.edges.part(self.first + self._taken, count)
        start = [] if self.first or self._parts else [self.start]
        ends = dict.fromkeys(chain(start, edges.from_ids, edges.to_ids))
        new = sorted((end for end in ends if end not in self._nodes), key=self.found.depths.__getitem__)
        self._taken += len(edges)
        self._nodes.update(new)
        self._parts.append(asyncio.create_task(self._shown(edges, new, is_dated)))

    async def _shown(self, edges: Edges, ends: list[str], is_dated: bool) -> Shown:
        nodes, described = await asyncio.gather(
            self.lineage.node_documents(self.call.tenant_id, ends),
            self.lineage.described(self.call.tenant_id, edges),
        )
        since = await self._since(edges) if is_dated else None
        relationships = described.json(since).encode()
        await asyncio.sleep(0)  # others have their turn
        written = _nodes_json(nodes, ends, self.found.depths).encode()
        return Shown(written, relationships, [end for end in ends if end in nodes.tags])

    async def _since(self, edges: Edges) -> list[str]:
        """Since when each edge is there, as the end of its document."""
        known = await self.lineage.validity(self.call.tenant_id, edges)
        times = map(known.get, edges)
        return [f',"valid_from":"{time.isoformat()}"' if time else "" for time in times]


async def edges_json(lineage: PostgresLineage, tenant_id: str, edges: Edges) -> list[bytes]:
    """The edges described, as parts of a list in JSON."""
    written: list[bytes] = []
    for first in range(0, len(edges), _SHOWN_AT_ONCE):
        described = await lineage.described(tenant_id, edges.part(first, _SHOWN_AT_ONCE))
        written.append(described.json().encode())
        await asyncio.sleep(0)  # others have their turn
    return written


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
    document = node_document(Node(asset_id), 0)
    return to_json({name: document[name] for name in document if name not in ("tags", "depth")})[:-1].decode()
