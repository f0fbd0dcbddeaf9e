"""Small JSON bodies as pydantic models: read, refused with pointers, and documented."""

from __future__ import annotations

from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError

from lily.access.requests import JSON_TYPES, MalformedRequest, read_body
from lily.domain.errors import InvalidInput

Model = TypeVar("Model", bound=BaseModel)


class Body(BaseModel):
    """What a caller sends; a field nobody knows is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


async def read_model(request: Request, model: type[Model]) -> Model:
    """The body as this model; `InvalidInput` says where it is not one."""
    content = await read_body(request, JSON_TYPES)
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
    content = {"application/json": {"schema": model.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}
