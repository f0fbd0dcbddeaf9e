"""The routes that write classification: tags of assets, opt-outs, and how tags spread."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from lily.access.calls import Call, Writing
from lily.access.decisions import Action, Resource
from lily.access.requests import check_id, read_body
from lily.access.routers import Route, add_routes
from lily.domain.lineage import EVERYBODY
from lily.ingest.lineage import (
    Classification,
    OptOut,
    TagDefinition,
    draft_definition,
    draft_opt_out,
    draft_tags,
)
from lily.ingest.payloads import Decoder
from lily.ingest.rest.bodies import accepts, answers
from lily.ingest.rest.lineage import answer, record
from lily.ingest.rest.writing import ASSETS, Writer, raise_first

CLASSIFICATION = f"{ASSETS}/governance/classification"
TAGS = f"{ASSETS}/governance/tags"
_CLASSIFICATION: Decoder[Classification] = Decoder(Classification)
_DEFINITION: Decoder[TagDefinition] = Decoder(TagDefinition)
_OPT_OUT: Decoder[OptOut] = Decoder(OptOut)

Tag = Annotated[str, Query(min_length=1, max_length=256)]
OfSource = Annotated[str, Query(description="Whose assertion: user, source, classifier; else everybody's.")]


class ClassificationWrites:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def router(self) -> APIRouter:
        given = answers(s200="LineageAnswer", s202="LineageAnswer")
        one, tag = CLASSIFICATION + "/{asset_id:path}", TAGS + "/{tag:path}"
        classification = accepts("Classification")
        return add_routes(
            APIRouter(tags=["classification"]),
            Route(CLASSIFICATION, "POST", self.post, "postClassification", given, classification),
            Route(one + "/opt-out", "PUT", self.opt_out, "putOptOut", given, accepts("OptOut")),
            Route(one + "/opt-out", "DELETE", self.opt_in, "deleteOptOut", given, accepts()),
            Route(one, "DELETE", self.delete, "deleteClassification", given, accepts()),
            Route(tag, "PUT", self.define, "putTag", given, accepts("TagDefinition")),
            Route(tag, "DELETE", self.undefine, "deleteTag", given, accepts()),
        )

    async def post(self, request: Request, call: Writing) -> Response:
        """Assert tags on an asset; those whose definition says so reach what is downstream."""
        body = await read_body(request)
        said = _CLASSIFICATION.decode(body)
        write = self._writer.begin(request, call, body)
        draft = draft_tags(said, write.arrival)
        current = await self._writer.current(write, said["asset_id"])
        tags = sorted({*current.traits.user_tags, *said["tags"]})
        raise_first(await self._writer.authorise(write, [(said["asset_id"], {"tags": tags})]))
        return answer(await record(self._writer, write, [draft]), _told(said["asset_id"], said["tags"]))

    async def delete(
        self, request: Request, call: Writing, asset_id: str, tag: Tag, source: OfSource = EVERYBODY
    ) -> Response:
        """Take a tag off an asset; what still reaches it over an edge stays."""
        write = self._writer.begin(request, call)
        current = await self._writer.current(write, check_id(asset_id))
        tags = sorted(current.traits.user_tags - {tag})
        raise_first(await self._writer.authorise(write, [(asset_id, {"tags": tags})]))
        await self._writer.require_sight(write, [asset_id])
        await self._writer.guard.protections.require_tags(call, asset_id, [tag])
        said = {"asset_id": asset_id, "tags": [tag], "source": source}
        draft = draft_tags(said, write.arrival, holds=False)
        return answer(await record(self._writer, write, [draft]), _told(asset_id, [tag]))

    async def opt_out(self, request: Request, call: Writing, asset_id: str) -> Response:
        """Keep tags from reaching an asset over an edge."""
        body = await read_body(request)
        return await self._set_opt_out(request, call, asset_id, _OPT_OUT.decode(body)["tags"], holds=True)

    async def opt_in(self, request: Request, call: Writing, asset_id: str, tag: Tag) -> Response:
        """Let a tag reach the asset again."""
        return await self._set_opt_out(request, call, asset_id, [tag], holds=False)

    async def _set_opt_out(
        self, request: Request, call: Call, asset_id: str, tags: list[str], *, holds: bool
    ) -> Response:
        write = self._writer.begin(request, call, b",".join(tag.encode() for tag in tags))
        await self._writer.current(write, check_id(asset_id))
        raise_first(await self._writer.authorise(write, [(asset_id, {})]))
        await self._writer.require_sight(write, [asset_id])
        if holds:
            await self._writer.guard.protections.require_tags(call, asset_id, tags)
        draft = draft_opt_out(asset_id, tags, write.arrival, holds=holds)
        return answer(await record(self._writer, write, [draft]), _told(asset_id, tags))

    async def define(self, request: Request, call: Writing, tag: str) -> Response:
        """Say how a tag spreads; everything derived follows."""
        body = await read_body(request)
        return await self._define(request, call, tag, _DEFINITION.decode(body), body)

    async def undefine(self, request: Request, call: Writing, tag: str) -> Response:
        """Forget what was said about a tag: it spreads as if nobody had defined it."""
        return await self._define(request, call, tag, None, b"")

    async def _define(
        self, request: Request, call: Call, tag: str, definition: dict[str, Any] | None, body: bytes
    ) -> Response:
        await call.require(Action.WRITE, Resource(call.tenant_id, "tag", check_id(tag)))
        await self._writer.guard.protections.require_tags(call, "", [tag])
        write = self._writer.begin(request, call, body)
        draft = draft_definition(tag, definition, write.arrival)
        return answer(await record(self._writer, write, [draft]), {"tag": tag})


def _told(asset_id: str, tags: list[str]) -> dict[str, Any]:
    return {"asset_id": asset_id, "tags": tags}
