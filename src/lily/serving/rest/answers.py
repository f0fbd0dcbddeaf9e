"""The answer of a route that answers JSON."""

from __future__ import annotations

from typing import Any

from fastapi.responses import Response
from pydantic_core import to_json


def answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(to_json(content), status, headers, media_type="application/json")
