"""What browsers may do: pages of listed origins may call, and nobody else's."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from lily.domain.errors import MisconfiguredError

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_SENT = (
    "authorization",
    "content-type",
    "idempotency-key",
    "if-match",
    "if-none-match",
    "lily-after",
    "lily-purpose",
    "prefer",
    "traceparent",
)
_SHOWN = (
    "etag",
    "lily-event-id",
    "location",
    "preference-applied",
    "retry-after",
    "traceresponse",
    "x-request-id",
)


def read_origins(text: str) -> tuple[str, ...]:
    """The origins a setting lists, each as browsers spell it."""
    origins = tuple(part.strip() for part in text.split(",") if part.strip())
    for origin in origins:
        url = urlsplit(origin)
        if url.scheme not in ("https", "http") or not url.netloc or origin != f"{url.scheme}://{url.netloc}":
            raise MisconfiguredError(
                f"LILY_GATEWAY_CORS_ORIGINS: {origin!r} is not an origin such as https://console.example; "
                "a wildcard is not allowed"
            )
    return origins


def allow_origins(app: FastAPI, origins: Sequence[str]) -> None:
    """Let pages of these origins call, with a token they send themselves; cookies stay at home."""
    app.add_middleware(
        CORSMiddleware,
        allow_origins=list(origins),
        allow_methods=list(_METHODS),
        allow_headers=list(_SENT),
        expose_headers=list(_SHOWN),
        allow_credentials=False,
        max_age=600,
    )
