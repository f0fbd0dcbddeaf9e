"""Errors as SCIM tells them (RFC 7644, 3.12), in place of problem documents."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError
from scim2_models import Error, SCIMException

from lily.access.routers import PrefixedRoute, Responses
from lily.domain.errors import LilyError
from lily.serving.rest.problems import MEDIA_TYPE as PROBLEM_TYPE
from lily.serving.rest.problems import STATUS, answer

MEDIA_TYPE = "application/scim+json"
_ERROR = {
    "type": "object",
    "required": ["schemas", "status"],
    "properties": {
        "schemas": {"type": "array", "items": {"type": "string"}},
        "status": {"type": "string"},
        "scimType": {"type": "string"},
        "detail": {"type": "string"},
    },
}
#: What the contract says about every answer: an error is SCIM's, unless something went wrong on our side.
ERROR_RESPONSE: Responses = {
    "default": {
        "description": "An error.",
        "content": {
            MEDIA_TYPE: {"schema": _ERROR},
            PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}},
        },
    }
}
_TEXTS = {"type": "array", "items": {"type": "string"}}
#: Which attributes there are depends on those asked for; what each may be is told at /scim/v2/Schemas.
_RESOURCE = {
    "type": "object",
    "required": ["schemas"],
    "properties": {"schemas": _TEXTS, "id": {"type": "string"}, "meta": {"type": "object"}},
}
_LIST = {
    "type": "object",
    "required": ["schemas", "totalResults"],
    "properties": {
        "schemas": _TEXTS,
        "totalResults": {"type": "integer"},
        "startIndex": {"type": "integer"},
        "itemsPerPage": {"type": "integer"},
        "Resources": {"type": "array", "items": _RESOURCE},
    },
}


def answers_scim(status: int = 200, *, is_list: bool = False) -> Responses:
    """The `responses` of a route that answers a resource, or a page of them."""
    schema = _LIST if is_list else _RESOURCE
    return ERROR_RESPONSE | {status: {"content": {MEDIA_TYPE: {"schema": schema}}}}


_SCIM_TYPES = {"already_exists": "uniqueness", "invalid_input": "invalidValue"}
#: SCIM knows no 422.
_STATUS = {"invalid_input": 400}


class ScimResponse(JSONResponse):
    media_type = MEDIA_TYPE


class ScimRoute(PrefixedRoute):
    """A route whose errors are SCIM's."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_or_tell(request: Request) -> Response:
            try:
                return await handle(request)
            except SCIMException as error:
                return scim_answer(error.status, error.detail, error.scim_type)
            except ValidationError as error:
                told = Error.from_validation_error(error.errors()[0])
                return scim_answer(told.status or 400, told.detail or "", told.scim_type or "")
            except RequestValidationError:
                return scim_answer(404, "there is nothing of this id")
            except LilyError as error:
                return _tell(request, error)

        return handle_or_tell


def scim_answer(status: int, detail: str, scim_type: str = "") -> Response:
    error = Error(status=status, detail=detail, scim_type=scim_type or None)
    return Response(error.model_dump_json(), status, media_type=MEDIA_TYPE)


def _tell(request: Request, error: LilyError) -> Response:
    status = _STATUS.get(error.code, STATUS.get(error.code, 500))
    told = scim_answer(status, error.message, _SCIM_TYPES.get(error.code, ""))
    for name in ("retry-after", "www-authenticate"):
        if name in (headers := answer(request, error).headers):
            told.headers[name] = headers[name]
    return told
