"""`metadata.MetadataService`: assets over gRPC."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc

from lily.access.assets import AssetGuard
from lily.access.calls import Call
from lily.access.requests import check_id
from lily.domain.errors import InvalidInput, NotFound
from lily.serving.grpc import metadata_pb2
from lily.serving.grpc.calls import Calls, Message

SERVICE = "metadata.MetadataService"
_messages: Any = metadata_pb2
_TEXTS = (
    "asset_name",
    "asset_type",
    "asset_owner",
    "created_at",
    "updated_at",
    "data_source",
    "external_id",
)

Fields = dict[str, Any]


@dataclass(frozen=True)
class MetadataService:
    """`create` and `change` write; they return when what they wrote is visible."""

    calls: Calls
    guard: AssetGuard
    create: Callable[[Call, Fields], Awaitable[None]]
    change: Callable[[Call, str, Fields], Awaitable[None]]

    def handler(self) -> grpc.GenericRpcHandler:
        m, method = _messages, self.calls.method
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "IngestMetadata": method(self._ingest, m.Metadata, m.IngestResponse),
                "UpdateMetadata": method(self._update, m.MetadataUpdateRequest, m.MetadataUpdateResponse),
                "GetMetadata": method(self._get, m.GetMetadataRequest, m.GetMetadataResponse),
            },
        )

    async def _ingest(self, call: Call, request: Message) -> Message:
        try:
            await self.create(call, fields_of(request))
        except InvalidInput as error:
            return _messages.IngestResponse(
                success=False, message=error.message, errors=_errors(error, request.asset_id)
            )
        return _messages.IngestResponse(success=True, message="ingested")

    async def _update(self, call: Call, request: Message) -> Message:
        fields = fields_of(request.updatedMetadata)
        fields.pop("asset_id", None)
        try:
            await self.change(call, check_id(request.asset_id), fields)
        except InvalidInput as error:
            return _messages.MetadataUpdateResponse(
                success=False, message=error.message, errors=_errors(error, request.asset_id)
            )
        found = await self._find(call, request.asset_id)
        return _messages.MetadataUpdateResponse(success=True, message="updated", metadata=found)

    async def _get(self, call: Call, request: Message) -> Message:
        found = await self._find(call, check_id(request.asset_id))
        return _messages.GetMetadataResponse(success=True, message="found", metadata=found)

    async def _find(self, call: Call, asset_id: str) -> Message:
        asset = await self.guard.find(call, asset_id)
        if asset is None:
            raise NotFound(f"there is no asset {asset_id!r}")
        document = json.loads(asset.document)
        texts = {name: document[name] or "" for name in ("asset_id", *_TEXTS)}
        return _messages.Metadata(
            **texts,
            tags=document["tags"],
            business_terms=document["business_terms"],
            version=document["version"],
            is_deleted=document["is_deleted"],
            metadata=json.dumps(document["metadata"]),
        )


def fields_of(said: Message) -> Fields:
    """What a message says of an asset; an empty text or list says nothing."""
    names = ("asset_id", *_TEXTS)
    fields: Fields = {name: text for name in names if (text := getattr(said, name))}
    for name in ("tags", "business_terms"):
        if values := list(getattr(said, name)):
            fields[name] = values
    if said.is_deleted:
        fields["is_deleted"] = True
    if said.metadata:
        try:
            fields["metadata"] = json.loads(said.metadata)
        except (ValueError, RecursionError):
            raise InvalidInput("metadata must be a JSON object") from None
    return fields


def _errors(error: InvalidInput, entity: str) -> list[Message]:
    found = error.values.get("errors") or [{"pointer": "", "detail": error.message}]
    return [
        _messages.Error(
            code=error.code, description=f"{each.get('pointer', '')} {each['detail']}".strip(), entity=entity
        )
        for each in found
    ]
