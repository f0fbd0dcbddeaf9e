"""`lineage.LineageService`: lineage over gRPC."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from lily.access.calls import Call
from lily.access.requests import check_id
from lily.domain.errors import InvalidInput
from lily.domain.lineage import Direction
from lily.serving.grpc import lineage_pb2
from lily.serving.grpc.calls import Calls, Message
from lily.serving.grpc.metadata_service import fields_of
from lily.serving.lineage import Lineage, Walk

SERVICE = "lineage.LineageService"
MAX_DEPTH = 10_000
#: What of an asset can be declared to go downstream, besides its tags.
_SPREADING = ("asset_owner", "business_terms", "metadata")
_messages: Any = lineage_pb2


@dataclass(frozen=True)
class LineageService:
    """`link`, `classify` and `change` write; they return when what they wrote is visible."""

    calls: Calls
    lineage: Lineage
    link: Callable[[Call, dict[str, Any]], Awaitable[None]]
    classify: Callable[[Call, str, Sequence[str]], Awaitable[None]]
    change: Callable[[Call, str, dict[str, Any]], Awaitable[None]]

    def handler(self) -> grpc.GenericRpcHandler:
        m, method = _messages, self.calls.method
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "IngestRelationships": method(self._ingest, m.Relationship, m.GenericMessage),
                "PropagateUpdateDownstream": method(
                    self._propagate, m.MetadataPropagationRequest, m.GenericMessage
                ),
                "GetLineage": method(self._get, m.GetLineageRequest, m.GetLineageResponse),
            },
        )

    async def _ingest(self, call: Call, request: Message) -> Message:
        edge = {
            "from_asset_id": request.from_asset_id,
            "to_asset_id": request.to_asset_id,
            "relationship_type": request.relationship_type,
        }
        try:
            await self.link(call, edge)
        except InvalidInput as error:
            return _messages.GenericMessage(success=False, message=error.message)
        return _messages.GenericMessage(success=True, message="relationship stored")

    async def _propagate(self, call: Call, request: Message) -> Message:
        said = request.updated_metadata
        fields = {name: value for name, value in fields_of(said).items() if name in _SPREADING}
        asset_id, tags = check_id(said.asset_id), list(said.tags)
        try:
            if fields:
                await self.change(call, asset_id, fields)
            if tags or not fields:
                await self.classify(call, asset_id, tags)
        except InvalidInput as error:
            return _messages.GenericMessage(success=False, message=error.message)
        return _messages.GenericMessage(success=True, message="what was said spreads as its definition says")

    async def _get(self, call: Call, request: Message) -> Message:
        depth = min(max(request.depth, 1), MAX_DEPTH)
        walk = Walk(
            check_id(request.asset_id),
            Direction.DOWNSTREAM,
            depth,
            remove_deleted=request.remove_deleted,
        )
        walked = await self.lineage.walk(call, walk)
        await self.lineage.note_edges(call, walked.edges)
        edges = [
            _messages.Relationship(
                from_asset_id=edge.from_id, to_asset_id=edge.to_id, relationship_type=edge.relationship_type
            )
            for edge in walked.edges
        ]
        message = "there is more than is shown" if walked.truncated else "all of it"
        return _messages.GetLineageResponse(success=True, message=message, lineage=edges)
