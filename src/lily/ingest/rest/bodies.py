"""How writing routes look in OpenAPI: their bodies and headers are read raw, so FastAPI cannot know."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from lily.access.routers import Responses
from lily.ingest.assets import AssetBatch, AssetBody, AssetPatch, EntityBody, EntityUpdate
from lily.ingest.incidents import Assignment, Comment, Remark, Resolution
from lily.ingest.lineage import (
    Classification,
    OptOut,
    Relationship,
    RelationshipBatch,
    SqlText,
    TagDefinition,
)
from lily.ingest.notifications import NotificationRequest
from lily.repositories.postgres.idempotency import KEPT_HOURS

JSON = "application/json"
_REFERENCE = "#/components/schemas/{model}"
_SHAPES: tuple[type[Any], ...] = (
    AssetBody,
    AssetBatch,
    AssetPatch,
    EntityBody,
    EntityUpdate,
    Relationship,
    RelationshipBatch,
    SqlText,
    Classification,
    OptOut,
    TagDefinition,
    NotificationRequest,
    Remark,
    Assignment,
    Resolution,
    Comment,
)
_HEADERS = {
    "Prefer": "RFC 7240: `respond-async` answers 202 once the event is safe; `wait=N` waits up to N seconds.",
    "Idempotency-Key": f"A retry with the same key has no second effect; kept for {KEPT_HOURS} hours.",
    "If-Match": "The entity tags the asset may have; another one is answered with 412.",
}
_EVENT_ID = {"Lily-Event-Id": {"schema": {"type": "string", "format": "uuid"}}}


def accepts(*shapes: str, media_types: tuple[str, ...] = (JSON,)) -> dict[str, Any]:
    """What an operation takes: the headers of every write, and a body of one of these shapes."""
    parameters = [
        {"name": name, "in": "header", "required": False, "description": text, "schema": {"type": "string"}}
        for name, text in _HEADERS.items()
    ]
    if not shapes:
        return {"parameters": parameters}
    content = {media_type: {"schema": _one_of(shapes)} for media_type in media_types}
    return {"parameters": parameters, "requestBody": {"required": True, "content": content}}


def answers(**by_status: str) -> Responses:
    """What an operation answers: `s200="AssetDocument"`; a shape of "" means no body."""
    return {
        int(status[1:]): _answer(tuple(filter(None, shapes.split("|"))))
        for status, shapes in by_status.items()
    }


def body_schemas() -> dict[str, Any]:
    """The component schemas of the bodies and answers named here."""
    inputs = [(shape.__name__, "validation", TypeAdapter(shape)) for shape in _SHAPES]
    _, definitions = TypeAdapter.json_schemas(inputs, ref_template=_REFERENCE)  # type: ignore[arg-type] # invariant
    return dict(definitions["$defs"]) | _ANSWERS


def _answer(shapes: tuple[str, ...]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "See the operation.", "headers": _EVENT_ID}
    return answer | ({"content": {JSON: {"schema": _one_of(shapes)}}} if shapes else {})


def _one_of(shapes: tuple[str, ...]) -> dict[str, Any]:
    references = [{"$ref": _REFERENCE.format(model=shape)} for shape in shapes]
    return references[0] if len(references) == 1 else {"oneOf": references}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_TEXT = {"type": "string"}
_ANSWERS = {
    "Accepted": _object(asset_id=_TEXT, event_id={"type": "string", "format": "uuid"}),
    "BatchAnswer": _object(
        accepted={"type": "integer"},
        rejected={
            "type": "array",
            "items": _object(
                index={"type": "integer"}, problem={"$ref": _REFERENCE.format(model="ItemProblem")}
            ),
        },
    ),
    # Of one asset among many: where and under which trace is said once, by the answer itself.
    "ItemProblem": _object(type=_TEXT, title=_TEXT, status={"type": "integer"}, detail=_TEXT, code=_TEXT),
    "LineageAnswer": {"type": "object", "properties": {"event_id": {"type": "string", "format": "uuid"}}},
    "NotificationReceipt": _object(event_id={"type": "string", "format": "uuid"}),
    "IncidentAnswer": {"type": "object", "properties": {"incident_id": _TEXT}, "required": ["incident_id"]},
    "WebhookAnswer": _object(
        status={"const": "received"},
        event_id={"type": "string", "format": "uuid"},
        incidents={"type": "array", "items": _TEXT},
    ),
    "EntityAnswer": _object(status={"const": "success"}, metadata_id=_TEXT),
}
