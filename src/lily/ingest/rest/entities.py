"""The routes that write assets in the `entity_type`/`attributes` form: /ingest-metadata, /metadata/{id}."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from lily.access.calls import Deleting, Writing
from lily.access.decisions import Action
from lily.access.requests import MalformedRequest, read_body
from lily.access.routers import Route, add_routes
from lily.domain.errors import InvalidInput
from lily.ingest.assertions import Draft, draft_assertion
from lily.ingest.assets import EntityBody, EntityUpdate
from lily.ingest.payloads import Decoder
from lily.ingest.recorder import Receipt, keyed_event_id
from lily.ingest.rest.bodies import accepts, answers
from lily.ingest.rest.patching import record_patch
from lily.ingest.rest.writing import Write, Writer, accepted_headers, raise_first, raise_refusal

Fields = dict[str, Any]

_ENTITY: Decoder[EntityBody] = Decoder(EntityBody)
_UPDATE: Decoder[EntityUpdate] = Decoder(EntityUpdate)
_ATTRIBUTES = {
    "name": "asset_name",
    "description": "description",
    "created_by": "asset_owner",
    "tags": "tags",
}


class InvalidEntity(MalformedRequest):
    """Invalid input, answered with 400 as this interface promises."""

    code = "invalid_entity"


class EntityWrites:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def router(self) -> APIRouter:
        one = "/metadata/{metadata_id:path}"
        given = answers(s200="EntityAnswer", s202="EntityAnswer")
        return add_routes(
            APIRouter(tags=["entities"]),
            Route("/ingest-metadata", "POST", self.ingest, "ingestEntity", given, accepts("EntityBody")),
            Route(one, "PUT", self.update, "updateEntity", given, accepts("EntityUpdate")),
            Route(one, "DELETE", self.delete, "deleteEntity", given, accepts()),
        )

    async def ingest(self, request: Request, call: Writing) -> Response:
        """Create an entity; its id is new."""
        body = await read_body(request)
        entity = _decode(_ENTITY, body)
        if "name" not in entity["attributes"]:
            raise _invalid("/attributes/name", "the field 'name' is required")
        write = self._writer.begin(request, call, body)
        # A retry under the same key must speak of the same entity.
        metadata_id = keyed_event_id(write.keyed, 1) if write.keyed else uuid4()
        fields = asset_fields(entity) | {"asset_id": str(metadata_id), "asset_type": entity["entity_type"]}
        raise_first(await self._writer.authorise(write, [(str(metadata_id), fields)]))
        return await self._record(write, draft_assertion(fields, write.arrival))

    async def update(self, request: Request, call: Writing, metadata_id: str) -> Response:
        """Change the attributes given."""
        body = await read_body(request)
        entity = _decode(_UPDATE, body)
        write = self._writer.begin(request, call, body)
        fields = asset_fields(entity) | {"asset_id": metadata_id}
        if "entity_type" in entity:
            fields["asset_type"] = entity["entity_type"]
        return _success(metadata_id, await record_patch(self._writer, request, write, fields))

    async def delete(self, request: Request, call: Deleting, metadata_id: str) -> Response:
        """Hide an entity; it can be restored under /lily/v1/metadata."""
        write = self._writer.begin(request, call)
        current = await self._writer.current(write, metadata_id, Action.DELETE)
        fields = {"asset_id": metadata_id, "is_deleted": True}
        await self._writer.guard.protections.require(call, metadata_id, fields)
        return await self._record(write, draft_assertion(fields, write.arrival, current.asset_type))

    async def _record(self, write: Write, draft: Draft) -> Response:
        return _success(draft.asset_id, await self._writer.recorder.record(write.submission([draft])))


def _success(metadata_id: str, receipt: Receipt) -> Response:
    raise_refusal(receipt)
    content = {"status": "success", "metadata_id": metadata_id}
    return JSONResponse(content, 202 if receipt.settlement is None else 200, accepted_headers(receipt))


def asset_fields(entity: Fields) -> Fields:
    """The asset's fields an entity speaks about; attributes of its own become metadata."""
    attributes = entity["attributes"]
    fields = {field: attributes[name] for name, field in _ATTRIBUTES.items() if name in attributes}
    others = {name: value for name, value in attributes.items() if name not in _ATTRIBUTES}
    if others:
        fields["metadata"] = others
    if "tenant_id" in entity:
        fields["tenant_id"] = entity["tenant_id"]
    return fields


def _decode(decoder: Decoder[Any], body: bytes) -> Fields:
    try:
        return dict(decoder.decode(body))
    except InvalidInput as error:
        raise InvalidEntity(error.message, **error.values) from None


def _invalid(pointer: str, detail: str) -> InvalidEntity:
    return InvalidEntity(f"{pointer}: {detail}", errors=[{"pointer": pointer, "detail": detail}])
