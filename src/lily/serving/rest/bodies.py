"""Small JSON bodies as pydantic models: read, refused with pointers, and documented."""

from __future__ import annotations

from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from lily.access.requests import JSON_TYPES, MalformedRequest, read_body
from lily.domain.errors import InvalidInput

Model = TypeVar("Model", bound=BaseModel)


class Body(BaseModel):
    """What a caller sends; a field nobody knows is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _storable(cls, value: Any) -> Any:
        """PostgreSQL cannot keep U+0000; it is refused here rather than by an error there."""
        if _has_nul(value):
            raise ValueError("the character U+0000 is not allowed")
        return value


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\x00" in value
    if isinstance(value, dict):
        return any(_has_nul(part) for pair in value.items() for part in pair)
    return isinstance(value, list) and any(map(_has_nul, value))


async def read_model(request: Request, model: type[Model]) -> Model:
    """The body as this model; `InvalidInput` says where it is not one."""
    return parse_model(model, await read_body(request, JSON_TYPES))


def parse_model(model: type[Model], content: bytes) -> Model:
    """The content as this model; `InvalidInput` says where it is not one."""
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        if any(each["type"] == "json_invalid" for each in problems):
            raise MalformedRequest("the body is not JSON") from None
        errors = [
            {"pointer": "".join(f"/{part}" for part in each["loc"]), "detail": each["msg"]}
            for each in problems
        ]
        message = "; ".join(f"{each['pointer']}: {each['detail']}" for each in errors)
        raise InvalidInput(message, errors=errors) from None


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """The `openapi_extra` of a route that reads this model."""
    schema = model.model_json_schema()
    content = {"application/json": {"schema": _inlined(schema, schema.pop("$defs", {}))}}
    return {"requestBody": {"required": True, "content": content}}


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    """The schema with what it refers to in place: it becomes part of another document."""
    if isinstance(schema, list):
        return [_inlined(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        others = {name: value for name, value in schema.items() if name != "$ref"}
        return _inlined(definitions[schema["$ref"].removeprefix("#/$defs/")] | others, definitions)
    return {name: _inlined(value, definitions) for name, value in schema.items()}
