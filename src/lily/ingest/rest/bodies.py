"""How the bodies of writing routes are described in OpenAPI; they are read raw, so FastAPI cannot know."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from lily.ingest.assets import AssetBatch, AssetBody, AssetPatch, EntityBody, EntityUpdate

_REFERENCE = "#/components/schemas/{model}"
_SHAPES: tuple[type[Any], ...] = (AssetBody, AssetBatch, AssetPatch, EntityBody, EntityUpdate)


def accepts(*shapes: str, media_type: str = "application/json") -> dict[str, Any]:
    """An operation's `requestBody`: one of these shapes."""
    references = [{"$ref": _REFERENCE.format(model=shape)} for shape in shapes]
    schema = references[0] if len(references) == 1 else {"oneOf": references}
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema}}}}


def body_schemas() -> dict[str, Any]:
    """The component schemas `accepts` refers to."""
    inputs = [(shape.__name__, "validation", TypeAdapter(shape)) for shape in _SHAPES]
    _, definitions = TypeAdapter.json_schemas(inputs, ref_template=_REFERENCE)  # type: ignore[arg-type] # invariant
    return dict(definitions["$defs"])
