"""The routes about the platform itself; all of them are public."""

from __future__ import annotations

from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from pydantic_core import to_json

from lily.access.routers import Responses, Route, add_routes
from lily.serving.health import UNHEALTHY, Health
from lily.serving.metrics import exposition

#: The only routes that need no token. /metrics names no tenant; the gateway listens on loopback unless told.
PUBLIC_PATHS = frozenset(
    {
        "/livez",
        "/readyz",
        "/version",
        "/metrics",
        "/openapi.json",
        "/lily/v1/system/health",
        "/lily/v1/auth/login",
        "/lily/v1/auth/refresh",
        "/lily/v1/auth/providers",
        "/lily/v1/auth/authorize",
        "/lily/v1/auth/callback",
        "/.well-known/oauth-protected-resource",
        # Authentic by their signatures.
        "/webhook/monte-carlo",
        "/lily/v1/webhooks/slack/{connector_id}",
        "/lily/v1/webhooks/{source}/{connector_id}",
    }
)


class PlatformStatus(BaseModel):
    status: str


class PlatformVersion(BaseModel):
    version: str


class LaneDocument(BaseModel):
    """How many events a lane is behind; null when the log does not answer."""

    lag: int | None
    current_as_of: datetime | None


class PlatformHealthDocument(BaseModel):
    """Each component has a `status`, and what else it tells of itself."""

    status: str
    version: str
    components: dict[str, dict[str, Any]]
    lanes: dict[str, LaneDocument]


def _may_be_down(model: Any) -> Responses:
    return {200: {"model": model}, 503: {"model": model, "description": "A part is down."}}


_TEXT: Responses = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


def lily_version() -> str:
    try:
        return version("lily")
    except PackageNotFoundError:  # run from the source tree
        return "0.0.0+source"


class SystemRoutes:
    def __init__(self, health: Health) -> None:
        self._health = health

    def router(self) -> APIRouter:
        health, may_be_down = "/lily/v1/system/health", _may_be_down(PlatformHealthDocument)
        return add_routes(
            APIRouter(tags=["system"]),
            Route("/livez", "GET", self.live, "getLive", PlatformStatus),
            Route("/readyz", "GET", self.ready, "getReady", _may_be_down(PlatformStatus)),
            Route("/version", "GET", self.version, "getVersion", PlatformVersion),
            Route(health, "GET", self.health, "getHealth", may_be_down),
            Route("/metrics", "GET", self.metrics, "getMetrics", _TEXT, response_class=PlainTextResponse),
        )

    async def live(self) -> Response:
        """This process answers."""
        return JSONResponse({"status": "live"})

    async def ready(self) -> Response:
        """This process can serve reads and take writes."""
        components = (await self._health.report()).components
        ready = all(components[part]["status"] != UNHEALTHY for part in ("postgres", "kafka"))
        return JSONResponse({"status": "ready" if ready else "not ready"}, 200 if ready else 503)

    async def version(self) -> Response:
        return JSONResponse({"version": lily_version()})

    async def metrics(self) -> Response:
        """Prometheus metrics of this host."""
        await self._health.report()
        return Response(exposition(), media_type=CONTENT_TYPE_LATEST)

    async def health(self) -> Response:
        """Each component, and how far each lane is behind; 503 when a component is down."""
        report = await self._health.report()
        content = {
            "status": report.status,
            "version": lily_version(),
            "components": report.components,
            "lanes": report.lanes,
        }
        status = 503 if report.status == UNHEALTHY else 200
        return Response(to_json(content), status, media_type="application/json")
