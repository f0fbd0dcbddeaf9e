"""The route that reads an asset: as it is, as it was, and its history."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic_core import to_json

from lily.access.assets import AssetGuard, traits_of_document
from lily.access.calls import Call, Reading
from lily.access.decisions import Action
from lily.access.requests import check_id
from lily.access.routers import Route, add_routes
from lily.domain.errors import NotFound
from lily.repositories.postgres.assets import Change, Place, StoredAsset
from lily.serving.incidents import Concern, Incidents
from lily.serving.rest.after import AfterEvent
from lily.serving.rest.documents import ASSET_RESPONSES
from lily.serving.rest.incidents import concern_fields
from lily.serving.rest.moments import read_moment
from lily.serving.rest.pages import PageTokens, page_size

History = Annotated[bool, Query(description="Answer the asset's history, newest first, in pages.")]
AsOf = Annotated[str | None, Query(description="RFC 3339: the asset after the last event up to that time.")]
PageSize = Annotated[int, Query(description="0 means 50; at most 1,000 are answered.")]
PageToken = Annotated[str, Query(description="`next_page_token` of the page before.")]


class AssetReads:
    def __init__(
        self, guard: AssetGuard, incidents: Incidents, after: AfterEvent, tokens: PageTokens
    ) -> None:
        self._guard = guard
        self._incidents = incidents
        self._assets = guard.assets
        self._after = after
        self._tokens = tokens

    def router(self) -> APIRouter:
        return add_routes(
            APIRouter(tags=["assets"], dependencies=[Depends(self._after.visible)]),
            Route("/lily/v1/metadata/{asset_id:path}", "GET", self.get, "getMetadata", ASSET_RESPONSES),
        )

    async def get(
        self,
        request: Request,
        call: Reading,
        asset_id: str,
        history: History = False,
        as_of: AsOf = None,
        page_size: PageSize = 0,
        page_token: PageToken = "",
    ) -> Response:
        """An asset, deleted ones included (`is_deleted` tells); purged and unknown ones are 404."""
        check_id(asset_id)
        if history:
            return await self._history(call, asset_id, page_size, page_token)
        if as_of is not None:
            return await self._as_of(call, asset_id, read_moment("as_of", as_of))
        asset = await self._readable(call, asset_id)
        concern = await self._incidents.concerning(call, asset_id) if asset.incidents_about else Concern()
        return _asset_answer(request, asset, concern)

    async def _readable(self, call: Call, asset_id: str) -> StoredAsset:
        asset = await self._guard.find(call, asset_id)
        if asset is None:
            raise NotFound(f"there is no asset {asset_id!r}")
        return asset

    async def _as_of(self, call: Call, asset_id: str, moment: datetime) -> Response:
        await self._readable(call, asset_id)
        asset = await self._assets.find_as_of(call.tenant_id, asset_id, moment)
        if asset is None or not await self._guard.may(call, Action.READ, asset.traits):
            raise NotFound(f"nothing was known about the asset {asset_id!r} at {moment.isoformat()}")
        return Response(asset.document, media_type="application/json")

    async def _history(self, call: Call, asset_id: str, requested: int, token: str) -> Response:
        await self._readable(call, asset_id)
        size = page_size(requested)
        question = ("history", call.tenant_id, asset_id)
        before = Place(*self._tokens.read(token, question)) if token else None
        changes = await self._assets.history(call.tenant_id, asset_id, before, size + 1)
        page, more = changes[:size], len(changes) > size
        place = page[-1].place if more else None
        content = {
            "asset_id": asset_id,
            "history": [_entry(change) for change in page if await self._may_see(call, change)],
            "next_page_token": self._tokens.issue((place.version, place.seq), question) if place else "",
        }
        return Response(to_json(content), media_type="application/json")

    async def _may_see(self, call: Call, change: Change) -> bool:
        """A version is shown to whom the asset may be shown, unless they could not have seen it as it was."""
        if change.asset is None:
            return True
        traits = replace(traits_of_document(change.asset), further_tags=frozenset(change.further_tags))
        return await self._guard.may(call, Action.READ, traits)


def _asset_answer(request: Request, asset: StoredAsset, concern: Concern) -> Response:
    entity_tag = _entity_tag(asset, concern)
    headers = {"etag": entity_tag, "cache-control": "private, no-cache"}
    if _matches(request.headers.get("if-none-match", ""), entity_tag):
        return Response(status_code=304, headers=headers)
    document = f"{asset.document[:-1]},{concern_fields(concern)}}}"
    return Response(document, headers=headers, media_type="application/json")


def _entity_tag(asset: StoredAsset, concern: Concern) -> str:
    """Another one whenever the answer is another: incidents come and go within a version."""
    if not concern.own and not concern.upstream:
        return asset.entity_tag
    mark = sha256(f"{asset.entity_tag} {concern_fields(concern)}".encode()).hexdigest()[:8]
    return f'"{asset.version}.{mark}"'


def _matches(header: str, entity_tag: str) -> bool:
    """Weak comparison, as RFC 9110 asks of If-None-Match."""
    tags = [tag.strip().removeprefix("W/") for tag in header.split(",")]
    return "*" in tags or entity_tag in tags


def _entry(change: Change) -> dict[str, Any]:
    return {
        "version": change.place.version,
        "event_id": str(change.event_id),
        "event_time": change.event_time,
        "applied_at": change.applied_at,
        "outcome": change.outcome,
        "actor": change.actor,
        "changed": change.changed,
        "asset": change.asset,
    }
