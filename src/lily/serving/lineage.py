"""Walks lineage for every interface: hop by hop, only over what the caller may read, never silently short."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from lily.access.assets import AssetGuard
from lily.access.calls import Call
from lily.access.decisions import ASSET
from lily.domain.lineage import Direction
from lily.repositories.postgres.edges import EdgeKey, Edges
from lily.repositories.postgres.lineage import ALL_TYPES, Hop, Node, PostgresLineage

#: A walk stops here, or at as many assets as it is told, and says so.
MAX_EDGES = 500_000
#: The largest walk takes some hundred megabytes, so that few walks of more than so many assets go on at once.
_AT_ONCE = 4
_LARGE = 5_000


@dataclass(frozen=True, slots=True)
class Walk:
    """What to walk: from where, which way, how far, over which edges, at what time."""

    start: str
    direction: Direction = Direction.DOWNSTREAM
    depth: int = 1
    types: Sequence[str] = ALL_TYPES
    as_of: datetime | None = None
    remove_deleted: bool = False
    #: Whether most of the edges are going to be shown: how it is read, not what is asked.
    is_described: bool = field(default=False, repr=False)


@dataclass(slots=True)
class Walked:
    """What was found, in the order of hops; `truncated` when there was more than is shown.

    `depths` has every asset on the way; so have `nodes` if deleted ones were to be left out.
    """

    depths: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: Edges = field(default_factory=Edges)
    truncated: bool = False


class Lineage:
    def __init__(self, lineage: PostgresLineage, guard: AssetGuard, most_nodes: int) -> None:
        self.edges = lineage
        self._most_nodes = most_nodes
        self._guard = guard
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def readable(self, call: Call, asset_ids: Sequence[str]) -> set[str]:
        return await self._guard.readable(call, asset_ids)

    async def walk(self, call: Call, walk: Walk) -> Walked:
        """Everything within `depth` hops of the start, which is part of it."""
        found = Walked()
        async for _ in self.hops(call, walk, found):
            pass
        return found

    async def layers(self, call: Call, walk: Walk, found: Walked) -> AsyncGenerator[list[Node]]:
        """The same, told hop by hop while it is walked; `found` has the whole in the end."""
        told = 0
        async with aclosing(self.hops(call, walk, found)) as hops:
            async for _ in hops:
                yield list(islice(found.nodes.values(), told, None))
                told = len(found.nodes)

    async def hops(self, call: Call, walk: Walk, found: Walked) -> AsyncGenerator[None]:
        """The same hop by hop: after each, `found` has what was found so far.

        A walk that has become large goes on when it is its turn; others need not wait for it.
        """
        async with AsyncExitStack() as turn:
            is_large = False
            async for _ in self._hops(call, walk, found):
                yield
                if not is_large and len(found.depths) > _LARGE:
                    is_large = True
                    await turn.enter_async_context(self._turns)

    async def is_known(self, call: Call, asset_id: str) -> bool:
        return (await self.edges.nodes(call.tenant_id, [asset_id]))[asset_id].is_known

    async def note_edges(self, call: Call, edges: Iterable[EdgeKey]) -> None:
        """Have the audit know that the tagged assets at the ends of these were shown."""
        ends = list(dict.fromkeys(end for edge in edges for end in (edge.from_id, edge.to_id)))
        nodes = (await self.edges.nodes(call.tenant_id, ends)).values() if ends else ()
        call.notebook.note_shown([node.asset_id for node in nodes if node.tags], "lineage")

    async def _hops(self, call: Call, walk: Walk, found: Walked) -> AsyncIterator[None]:
        await self._admit(call, walk, [walk.start], 0, found)
        if walk.start not in found.depths:
            call.notebook.write("read", (ASSET, walk.start), False, "lineage")
            return
        ways = {
            Direction.UPSTREAM: (True,),
            Direction.DOWNSTREAM: (False,),
            Direction.BOTH: (True, False),
        }[walk.direction]
        yield
        for upstream in ways:
            async for _ in self._walk(call, walk, upstream, found):
                yield

    async def _walk(self, call: Call, walk: Walk, upstream: bool, found: Walked) -> AsyncIterator[None]:
        frontier, seen, is_all_shown = [walk.start], {walk.start}, True
        known = set(found.edges)  # of the other way; on one way no edge is met twice
        for depth in range(1, walk.depth + 1):
            most = MAX_EDGES - len(found.edges) + 1
            hop = Hop(frontier, upstream, walk.types, walk.as_of, most, walk.is_described)
            edges = await self.edges.step(call.tenant_id, hop) if frontier else Edges()
            if not edges:
                return
            ends = edges.from_ids if upstream else edges.to_ids
            frontier = [end for end in dict.fromkeys(ends) if end not in seen]
            seen.update(frontier)
            new = [end for end in frontier if end not in found.depths] if known else frontier
            is_all_shown &= await self._admit(call, walk, new, depth, found)
            if not is_all_shown:
                frontier = [end for end in frontier if end in found.depths]
                edges = edges.where(end in found.depths for end in ends)
            found.edges.extend(edges.where(key not in known for key in edges) if known else edges)
            yield
            if len(found.depths) >= self._most_nodes or len(found.edges) >= MAX_EDGES:
                found.truncated = True
                return
        if frontier and not found.truncated:
            found.truncated = await self._goes_on(call, walk, upstream, frontier)

    async def _goes_on(self, call: Call, walk: Walk, upstream: bool, frontier: list[str]) -> bool:
        """Whether the depth asked for ends before the lineage does."""
        beyond = await self.edges.step(call.tenant_id, Hop(frontier, upstream, walk.types, walk.as_of, 1))
        return bool(beyond)

    async def _admit(self, call: Call, walk: Walk, ids: list[str], depth: int, found: Walked) -> bool:
        """Find those of the assets that may be shown; whether these are all."""
        if not ids:
            return True
        readable = await self._guard.readable(call, ids)
        shown = ids if len(readable) == len(ids) else [each for each in ids if each in readable]
        # Of a start that may not be read nothing is told: not even that there is more.
        found.truncated |= depth > 0 and len(shown) < len(ids)
        if walk.remove_deleted:
            nodes = await self.edges.nodes(call.tenant_id, shown)
            shown = [each for each in shown if depth == 0 or not nodes[each].is_deleted]
            found.nodes.update((each, nodes[each]) for each in shown)
        found.depths.update(dict.fromkeys(shown, depth))
        return len(shown) == len(ids)

    async def paths(self, call: Call, start: str, end: str, depth: int) -> tuple[Edges, bool]:
        """A shortest path from one asset to another, and whether the search was cut short."""
        found = await self.walk(call, Walk(start, Direction.DOWNSTREAM, depth))
        into: dict[str, list[EdgeKey]] = {}
        for edge in found.edges:
            into.setdefault(edge.to_id, []).append(edge)
        path: list[EdgeKey] = []
        at = end
        while at != start and at in found.depths:
            shorter = [e for e in into.get(at, ()) if found.depths[e.from_id] < found.depths[at]]
            if not shorter:
                break
            path.append(min(shorter))
            at = path[-1].from_id
        return Edges.of(path[::-1] if at == start else ()), found.truncated
