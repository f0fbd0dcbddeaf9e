"""Every error of the REST interface as a problem document (RFC 9457); the one place that maps them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.routing import Match

from lily.domain.errors import LilyError

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 1

#: The HTTP status of every error code; the code names the problem's type.
STATUS = {
    "malformed_request": 400,
    "invalid_entity": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "idempotency_key_in_flight": 409,
    "already_exists": 409,
    "still_in_use": 409,
    "version_conflict": 412,
    "content_too_large": 413,
    "unsupported_media_type": 415,
    "invalid_input": 422,
    "idempotency_key_reused": 422,
    "too_many_requests": 429,
    "quota_exceeded": 429,
    "internal": 500,
    "unavailable": 503,
    "not_visible_yet": 504,
}
#: Values of an error that its problem shows.
_EXTENSIONS = ("errors", "event_id", "accepted", "rejected")


def describe(error: LilyError) -> dict[str, Any]:
    """The problem of an error, apart from where it happened."""
    problem = {
        "type": f"/problems/{error.code}",
        "title": error.code.replace("_", " ").capitalize(),
        "status": STATUS.get(error.code, 500),
        "detail": error.message,
        "code": error.code,
    }
    return problem | {name: error.values[name] for name in _EXTENSIONS if name in error.values}


def answer(request: Request, error: LilyError) -> Response:
    """The response that tells the caller; the audit keeps why."""
    request.state.refusal = error.message
    problem = describe(error) | {"instance": request.url.path, "trace_id": request.state.trace_id}
    headers = {}
    if "event_id" in error.values:
        headers["lily-event-id"] = str(error.values["event_id"])
    if error.retryable:
        headers["retry-after"] = str(error.values.get("retry_after", RETRY_AFTER_SECONDS))
    headers |= error.values.get("headers", {})
    if error.code == "unauthenticated":
        headers["www-authenticate"] = _challenge(request)
    return Response(to_json(problem), problem["status"], headers, media_type=MEDIA_TYPE)


def _challenge(request: Request) -> str:
    """How to authenticate, and where it is written who issues tokens (RFC 9728)."""
    here = getattr(request.app.state, "public_url", "") or str(request.base_url).replace('"', "")
    metadata = f"{here.rstrip('/')}/.well-known/oauth-protected-resource"
    return f'Bearer realm="lily", error="invalid_token", resource_metadata="{metadata}"'


def install(app: FastAPI) -> None:
    """Answer whatever the application raises with a problem."""

    async def on_lily_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, LilyError)
        return answer(request, error)

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _answer_http(request, error)

    async def on_invalid_parameters(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return answer(request, _invalid_parameters(error))

    app.add_exception_handler(LilyError, on_lily_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(RequestValidationError, on_invalid_parameters)


class InternalError(LilyError):
    """Our fault; what happened is in the log under the trace id."""

    code = "internal"


class _MalformedParameter(LilyError):
    code = "malformed_request"


class _HttpError(LilyError):
    """What the framework itself refuses: an unknown path, a method that is not allowed there."""


def _answer_http(request: Request, error: HTTPException) -> Response:
    known = {404: "not_found", 405: "method_not_allowed"}
    code = known.get(error.status_code, "malformed_request" if error.status_code < 500 else "internal")
    told = _HttpError(_http_detail(request, error))
    problem = describe(told) | {
        "type": f"/problems/{code}",
        "title": HTTPStatus(error.status_code).phrase,
        "status": error.status_code,
        "code": code,
        "instance": request.url.path,
        "trace_id": request.state.trace_id,
    }
    headers = {"allow": _allowed(request)} if error.status_code == 405 else dict(error.headers or {})
    return Response(to_json(problem), error.status_code, headers, media_type=MEDIA_TYPE)


def _allowed(request: Request) -> str:
    """The methods of all routes at this path; the router knows only those of the first."""
    at_path = [route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE]
    return ", ".join(sorted({method for route in at_path for method in route.methods}))


def _http_detail(request: Request, error: HTTPException) -> str:
    if error.status_code == 404:
        return f"there is nothing at {request.url.path}; /openapi.json lists what there is"
    if error.status_code == 405:
        return f"{request.method} is not allowed here; allowed: {_allowed(request)}"
    return str(error.detail)


def _invalid_parameters(error: RequestValidationError) -> LilyError:
    errors = [
        {"parameter": str(each["loc"][-1]), "pointer": "", "detail": str(each["msg"])}
        for each in error.errors()
    ]
    message = "; ".join(f"{each['parameter']}: {each['detail']}" for each in errors)
    return _MalformedParameter(message, errors=errors)
