"""The routes that read lineage: what is up- and downstream of an asset, now or at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic_core import to_json

from lily.access.calls import Call, Reading
from lily.access.requests import MalformedRequest, check_id
from lily.access.routers import Route, add_routes
from lily.domain.errors import NotFound
from lily.domain.lineage import Direction
from lily.repositories.postgres.lineage import ALL_TYPES, Node
from lily.serving.incidents import Incidents
from lily.serving.lineage import Lineage, Walk, Walked
from lily.serving.rest.after import AfterEvent
from lily.serving.rest.lineage_answers import LineageDiff, LineageImpact, LineagePage, LineagePaths
from lily.serving.rest.lineage_pages import PageWriter, answer_with, edges_json, node_document
from lily.serving.rest.moments import read_moment
from lily.serving.rest.pages import PageTokens

LINEAGE = "/lily/v1/metadata/lineage"
NDJSON = "application/x-ndjson"
MAX_DEPTH = 10_000
DEFAULT_PAGE, MAX_PAGE = 1_000, 50_000

Which = Annotated[Direction, Query(description="upstream, downstream or both.")]
Depth = Annotated[int, Query(ge=1, le=MAX_DEPTH, description="How many hops.")]
Types = Annotated[str, Query(description="Only these relationship types, separated by commas.")]
AsOf = Annotated[str | None, Query(description="RFC 3339: the lineage at that time.")]
PageSize = Annotated[int, Query(ge=0, description=f"Edges per page; 0 means {DEFAULT_PAGE:,}.")]


class LineageReads:
    def __init__(self, lineage: Lineage, incidents: Incidents, after: AfterEvent, tokens: PageTokens) -> None:
        self._lineage = lineage
        self._incidents = incidents
        self._after = after
        self._tokens = tokens

    def router(self) -> APIRouter:
        one = LINEAGE + "/{asset_id:path}"
        return add_routes(
            APIRouter(tags=["lineage"], dependencies=[Depends(self._after.visible)]),
            Route(LINEAGE + "/paths", "GET", self.paths, "getLineagePaths", LineagePaths),
            Route(one + "/impact", "GET", self.impact, "getLineageImpact", LineageImpact),
            Route(one + "/diff", "GET", self.diff, "getLineageDiff", LineageDiff),
            Route(one, "GET", self.get, "getLineage", LineagePage),
        )

    async def get(
        self,
        call: Reading,
        asset_id: str,
        direction: Which = Direction.BOTH,
        depth: Depth = 3,
        types: Types = "",
        as_of: AsOf = None,
        remove_deleted: bool = False,
        column: str | None = None,
        page_size: PageSize = 0,
        page_token: str = "",
    ) -> Response:
        """The edges within `depth` hops in pages, each page with the nodes its edges are between."""
        start = await self._start(call, asset_id, column)
        moment = read_moment("as_of", as_of) if as_of else None
        size = min(page_size or DEFAULT_PAGE, MAX_PAGE)
        walk = Walk(start, direction, depth, _types(types), moment, remove_deleted, size > DEFAULT_PAGE)
        question = ("lineage", call.tenant_id, repr(walk))
        first = self._tokens.read(page_token, question)[0] if page_token else 0
        walked = Walked()
        writer = PageWriter(self._lineage.edges, call, start, walked, first, size)
        try:
            async with aclosing(self._lineage.hops(call, walk, walked)) as hops:
                async for _ in hops:
                    writer.go_on()
            await self._require_start(call, walk, walked)
            parts = await writer.finish(is_dated=moment is None)
        finally:
            await writer.close()
        more = len(walked.edges) > first + size
        content = {
            "asset_id": start,
            "truncated": walked.truncated,
            "next_page_token": self._tokens.issue((first + size,), question) if more else "",
        }
        nodes, relationships = (part.nodes for part in parts), (part.relationships for part in parts)
        return answer_with(content, nodes=nodes, relationships=relationships)

    async def impact(
        self, request: Request, call: Reading, asset_id: str, depth: Depth = MAX_DEPTH, types: Types = ""
    ) -> Response:
        """What depends on an asset: counted by type, owner and tag, and listed nearest first; with
        the open incidents on the way.

        With `Accept: application/x-ndjson` the list is streamed, an asset per line; the counts come last.
        """
        walk = Walk(check_id(asset_id), Direction.DOWNSTREAM, depth, _types(types), remove_deleted=True)
        if NDJSON in request.headers.get("accept", ""):
            await self._walk(call, replace(walk, depth=1))
            return StreamingResponse(self._impact_lines(call, walk), media_type=NDJSON)
        walked = await self._walk(call, walk)
        below = _below(walked)
        call.notebook.note_shown([node.asset_id for node in below if node.tags], "impact")
        content = _counted(walked) | {
            "assets": [node_document(node, walked.depths[node.asset_id]) for node in below]
        }
        return Response(await self._with_incidents(call, walked, content), media_type="application/json")

    async def _with_incidents(self, call: Call, walked: Walked, content: dict[str, Any]) -> str:
        """The answer with the open incidents on the way, whose documents are JSON already."""
        on_the_way = await self._incidents.open_on(call, list(walked.nodes))
        shown = ",".join(incident.document for incident in on_the_way)
        return f'{to_json(content)[:-1].decode()},"incidents":[{shown}]}}'

    async def _impact_lines(self, call: Call, walk: Walk) -> AsyncIterator[bytes]:
        found = Walked()
        async for layer in self._lineage.layers(call, walk, found):
            below = [node for node in layer if node.asset_id != walk.start]
            call.notebook.note_shown([node.asset_id for node in below if node.tags], "impact")
            for start in range(0, len(below), DEFAULT_PAGE):
                part = below[start : start + DEFAULT_PAGE]
                yield b"".join(
                    to_json(node_document(node, found.depths[node.asset_id])) + b"\n" for node in part
                )
        yield (await self._with_incidents(call, found, _counted(found))).encode() + b"\n"

    async def paths(
        self,
        call: Reading,
        from_: Annotated[str, Query(alias="from")],
        to: str,
        depth: Depth = 100,
    ) -> Response:
        """A shortest way by which one asset leads to another; no edges when there is none."""
        path, truncated = await self._lineage.paths(call, check_id(from_), check_id(to), depth)
        await self._lineage.note_edges(call, path)
        described = await self._lineage.edges.described(call.tenant_id, path)
        is_whole = bool(described) and all(described.about)  # an edge may be gone meanwhile
        content = {"from": from_, "to": to, "truncated": truncated and not is_whole}
        return answer_with(content, paths=[f"[{described.json()}]".encode()] if is_whole else [])

    async def diff(
        self,
        call: Reading,
        asset_id: str,
        from_: Annotated[str, Query(alias="from", description="RFC 3339")],
        to: Annotated[str | None, Query(description="RFC 3339; else now.")] = None,
        direction: Which = Direction.BOTH,
        depth: Depth = 3,
    ) -> Response:
        """The edges that came and went between two times."""
        before_at = read_moment("from", from_)
        after_at = read_moment("to", to) if to else None
        walk = Walk(check_id(asset_id), direction, depth, ALL_TYPES, before_at)
        before = await self._lineage.walk(call, walk)
        after = await self._lineage.walk(call, replace(walk, as_of=after_at))
        if not before.edges:
            await self._require_start(call, walk, after)
        content = {"asset_id": asset_id, "truncated": before.truncated or after.truncated}
        were, are = set(before.edges), set(after.edges)
        added = after.edges.where(edge not in were for edge in after.edges)
        removed = before.edges.where(edge not in are for edge in before.edges)
        await self._lineage.note_edges(call, [*added, *removed])
        came = await edges_json(self._lineage.edges, call.tenant_id, added)
        went = await edges_json(self._lineage.edges, call.tenant_id, removed)
        return answer_with(content, added=came, removed=went)

    async def _start(self, call: Call, asset_id: str, column: str | None) -> str:
        check_id(asset_id)
        if column is None:
            return asset_id
        found = await self._lineage.edges.column(call.tenant_id, asset_id, check_id(column))
        if found is None or {asset_id, found} - await self._lineage.readable(call, [asset_id, found]):
            raise NotFound(f"there is no asset {asset_id!r} with a column {column!r}")
        return found

    async def _walk(self, call: Call, walk: Walk) -> Walked:
        walked = await self._lineage.walk(call, walk)
        await self._require_start(call, walk, walked)
        return walked

    async def _require_start(self, call: Call, walk: Walk, walked: Walked) -> None:
        """Return when the start is an asset, or an end of an edge, that the caller may read."""
        if walked.edges:
            return
        if walk.start in walked.depths:
            beside = Walk(walk.start, Direction.BOTH)  # of another type, or the other way
            if (
                await self._lineage.is_known(call, walk.start)
                or (await self._lineage.walk(call, beside)).edges
            ):
                return
        raise NotFound(f"there is no asset {walk.start!r}")


def _below(walked: Walked) -> list[Node]:
    return [node for asset, node in walked.nodes.items() if walked.depths[asset] > 0]


def _counted(walked: Walked) -> dict[str, Any]:
    below = _below(walked)
    return {
        "asset_id": next(iter(walked.nodes), ""),
        "total": len(below),
        "by_type": Counter(node.asset_type or "unknown" for node in below),
        "by_owner": Counter(node.asset_owner or "nobody" for node in below),
        "by_tag": Counter(tag for node in below for tag in node.tags),
        "truncated": walked.truncated,
    }


def _types(text: str) -> tuple[str, ...]:
    asked = tuple(filter(None, (part.strip() for part in text.split(","))))
    if unknown := [part for part in asked if part not in ALL_TYPES]:
        raise MalformedRequest(f"types: unknown {unknown[0][:64]!r}; allowed: {', '.join(ALL_TYPES)}")
    return asked or ALL_TYPES
