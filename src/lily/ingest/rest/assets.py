"""The routes that write assets: POST, PUT, PATCH and DELETE under /lily/v1/metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from lily.access.calls import Deleting, Writing
from lily.access.decisions import Action
from lily.access.requests import JSON_TYPES, read_body
from lily.access.routers import Route, add_routes
from lily.domain.errors import Forbidden, InvalidInput, LilyError
from lily.ingest.assertions import Draft, draft_assertion, draft_purge, replacing
from lily.ingest.assets import AssetBody, AssetPatch
from lily.ingest.payloads import DecodedAssets, Decoder, Rejection, decode_assets
from lily.ingest.recorder import Receipt
from lily.ingest.rest.bodies import accepts, answers
from lily.ingest.rest.patching import record_patch
from lily.ingest.rest.writing import (
    ASSETS,
    ASYNC_APPLIED,
    Write,
    Writer,
    accepted_headers,
    expected_version,
    raise_first,
    raise_refusal,
)

MERGE_PATCH = "application/merge-patch+json"
_REPLACEMENT: Decoder[AssetBody] = Decoder(AssetBody)
_PATCH: Decoder[AssetPatch] = Decoder(AssetPatch)

Fields = dict[str, Any]
Describe = Callable[[LilyError], dict[str, Any]]
#: An asset of a batch: where it was, what it says, and its event.
Drafted = tuple[int, Fields, Draft]
Purge = Annotated[bool, Query(description="Forget the asset and everything said about it.")]


class AssetWrites:
    """`describe` turns the error of a rejected asset into its problem document."""

    def __init__(self, writer: Writer, describe: Describe) -> None:
        self._writer = writer
        self._describe = describe

    def router_of_posts(self) -> APIRouter:
        """What is asked most often, under a path that stands before no other."""
        posted = answers(s200="AssetDocument|BatchAnswer", s201="AssetDocument", s202="Accepted|BatchAnswer")
        posts = accepts("AssetBody", "AssetBatch")
        return add_routes(
            APIRouter(tags=["assets"]), Route(ASSETS, "POST", self.post, "postMetadata", posted, posts)
        )

    def router(self) -> APIRouter:
        one = ASSETS + "/{asset_id:path}"
        changed = answers(s200="AssetDocument", s202="Accepted")
        patches = accepts("AssetPatch", media_types=(MERGE_PATCH, *JSON_TYPES))
        deleted = changed | answers(s204="")
        return add_routes(
            APIRouter(tags=["assets"]),
            Route(one, "PUT", self.put, "putMetadata", changed, accepts("AssetBody")),
            Route(one, "PATCH", self.patch, "patchMetadata", changed, patches),
            Route(one, "DELETE", self.delete, "deleteMetadata", deleted, accepts()),
        )

    async def post(self, request: Request, call: Writing) -> Response:
        """Create or change one asset, or up to 1,000 as `{"assets": […]}`."""
        body = await read_body(request)
        decoded = decode_assets(body)
        write = self._writer.begin(request, call, body)
        if decoded.is_batch:
            return await self._post_batch(write, decoded)
        fields = decoded.assets[0]
        draft = await self._draft_one(request, write, fields)
        raise_first(await self._writer.authorise(write, [(draft.asset_id, fields)]))
        return await self._writer.write_one(write, draft)

    async def put(self, request: Request, call: Writing, asset_id: str) -> Response:
        """Replace an asset: every field that is not mentioned is cleared."""
        body = await read_body(request)
        fields = _addressed(_REPLACEMENT.decode(body), asset_id)
        write = self._writer.begin(request, call, body)
        if earlier := await self._writer.recorder.earlier(write.keyed):
            return await self._writer.answer(write, asset_id, earlier)
        current = await self._writer.current(write, asset_id)
        await self._writer.guard.require_change(call, current, replacing(fields))
        expected = expected_version(request, current)
        draft = draft_assertion(replacing(fields), write.arrival, current.asset_type, expected)
        return await self._writer.write_one(write, draft)

    async def patch(self, request: Request, call: Writing, asset_id: str) -> Response:
        """Change the fields mentioned (RFC 7396); `metadata` is merged into what is there."""
        body = await read_body(request, (MERGE_PATCH, *JSON_TYPES))
        fields = _addressed(_PATCH.decode(body), asset_id)
        write = self._writer.begin(request, call, body)
        receipt = await record_patch(self._writer, request, write, fields)
        return await self._writer.answer(write, asset_id, receipt)

    async def delete(self, request: Request, call: Deleting, asset_id: str, purge: Purge = False) -> Response:
        """Hide an asset, which posting `"is_deleted": false` undoes; with `purge`, forget it."""
        action = Action.PURGE if purge else Action.DELETE
        write = self._writer.begin(request, call)
        receipt = await self._writer.recorder.earlier(write.keyed)
        if receipt is None:
            current = await self._writer.current(write, asset_id, action)
            await self._writer.guard.protections.require(call, asset_id, {"is_deleted": True})
            expected = expected_version(request, current)
            if purge:
                draft = draft_purge(asset_id, current.asset_type, write.arrival, expected)
            else:
                fields = {"asset_id": asset_id, "is_deleted": True}
                draft = draft_assertion(fields, write.arrival, current.asset_type, expected)
            receipt = await self._writer.recorder.record(write.submission([draft]))
        if purge and receipt.settlement is not None:
            raise_refusal(receipt)
            return Response(status_code=204, headers=accepted_headers(receipt))
        return await self._writer.answer(write, asset_id, receipt)

    async def _draft_one(self, request: Request, write: Write, fields: Fields) -> Draft:
        if "if-match" not in request.headers:
            return draft_assertion(fields, write.arrival)
        draft = draft_assertion(dict(fields), write.arrival)
        if await self._writer.recorder.earlier(write.keyed):
            return draft
        current = await self._writer.guard.find(write.call, draft.asset_id)
        expected = expected_version(request, current)
        return draft_assertion(fields, write.arrival, expected_version=expected)

    async def _post_batch(self, write: Write, decoded: DecodedAssets) -> Response:
        drafted, rejected = _draft_batch(write, decoded)
        refused = await self._writer.authorise(write, [(draft.asset_id, said) for _, said, draft in drafted])
        rejected += [Rejection(drafted[at][0], error) for at, error in refused.items()]
        allowed = [each for at, each in enumerate(drafted) if at not in refused] if refused else drafted
        if not allowed:
            raise _none_accepted(rejected, self._problems(rejected))
        drafts, indexes = [draft for *_, draft in allowed], [place for place, *_ in allowed]
        receipt = await self._writer.recorder.record(write.submission(drafts))
        dead = await self._writer.recorder.refusals(write.arrival.tenant_id, receipt)
        rejected += [
            Rejection(indexes[refusal.index], InvalidInput(f"{refusal.reason}: {refusal.detail}"))
            for refusal in dead
        ]
        return self._batch_answer(len(drafts) - len(dead), rejected, receipt)

    def _batch_answer(self, accepted: int, rejected: list[Rejection], receipt: Receipt) -> Response:
        content = {"accepted": accepted, "rejected": self._problems(rejected)}
        headers = accepted_headers(receipt)
        if receipt.settlement is None:
            return JSONResponse(content, 202, headers | ASYNC_APPLIED)
        return JSONResponse(content, 200 if accepted else 422, headers)

    def _problems(self, rejected: list[Rejection]) -> list[dict[str, Any]]:
        in_order = sorted(rejected, key=lambda rejection: rejection.index)
        return [{"index": each.index, "problem": self._describe(each.error)} for each in in_order]


def _draft_batch(write: Write, decoded: DecodedAssets) -> tuple[list[Drafted], list[Rejection]]:
    drafted: list[Drafted] = []
    rejected = list(decoded.rejected)
    for index, fields in zip(decoded.indexes, decoded.assets, strict=True):
        try:
            drafted.append((index, fields, draft_assertion(fields, write.arrival)))
        except LilyError as error:
            rejected.append(Rejection(index, error))
    return drafted, rejected


def _none_accepted(rejected: list[Rejection], problems: list[dict[str, Any]]) -> LilyError:
    error: type[LilyError] = InvalidInput
    if all(isinstance(each.error, Forbidden) for each in rejected):
        error = Forbidden
    return error(
        f"none of the {len(rejected)} assets was accepted; see rejected", accepted=0, rejected=problems
    )


def _addressed(fields: Fields, asset_id: str) -> Fields:
    """The fields with the id of the path, which a body may repeat but not change."""
    if fields.get("asset_id") not in (None, asset_id):
        detail = f"must be {asset_id!r} as in the path, or left out"
        raise InvalidInput(f"/asset_id: {detail}", errors=[{"pointer": "/asset_id", "detail": detail}])
    return {**fields, "asset_id": asset_id}
