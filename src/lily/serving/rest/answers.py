"""The answer of a route that answers JSON, and how the contract tells its shape."""

from __future__ import annotations

from typing import Any

from fastapi.responses import Response
from pydantic_core import to_json

#: What FastAPI takes as `responses`.
Responses = dict[int | str, dict[str, Any]]


def answers_with(model: Any, status: int = 200) -> Responses:
    """The `responses` of a route whose JSON is this model's."""
    return {status: {"model": model}}


def answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(to_json(content), status, headers, media_type="application/json")
