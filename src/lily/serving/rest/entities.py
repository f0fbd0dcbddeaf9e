"""The route that reads an asset in the `entity_type`/`attributes` form: GET /metadata/{id}."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic_core import to_json

from lily.access.assets import AssetGuard
from lily.access.calls import Reading
from lily.access.requests import check_id
from lily.access.routers import Route, add_routes
from lily.domain.errors import NotFound
from lily.serving.rest.after import AfterEvent
from lily.serving.rest.documents import EntityDocument


class EntityReads:
    def __init__(self, guard: AssetGuard, after: AfterEvent) -> None:
        self._guard = guard
        self._after = after

    def router(self) -> APIRouter:
        return add_routes(
            APIRouter(tags=["entities"], dependencies=[Depends(self._after.visible)]),
            Route("/metadata/{metadata_id:path}", "GET", self.get, "getEntity", EntityDocument),
        )

    async def get(self, call: Reading, metadata_id: str) -> Response:
        """An entity; a deleted one is 404 here, where nothing could tell it from a live one."""
        asset = await self._guard.find(call, check_id(metadata_id))
        document = json.loads(asset.document) if asset else None
        if document is None or document["is_deleted"]:
            raise NotFound(f"there is no metadata entity {metadata_id!r}")
        return Response(to_json(entity_of(document)), media_type="application/json")


def entity_of(asset: dict[str, Any]) -> dict[str, Any]:
    """An asset document as an entity; its metadata appears among the attributes."""
    attributes = asset["metadata"] | {
        "name": asset["asset_name"],
        "description": asset["description"],
        "created_by": asset["asset_owner"],
        "tags": asset["tags"],
    }
    return {
        "metadata_id": asset["asset_id"],
        "entity_type": asset["asset_type"],
        "attributes": attributes,
        "tenant_id": asset["tenant_id"],
        "created_at": asset["created_at"],
        "updated_at": asset["updated_at"],
    }
