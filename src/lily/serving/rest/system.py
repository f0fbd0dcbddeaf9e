"""The routes about the platform itself; all of them are public."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic_core import to_json

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


_Responses = dict[int | str, dict[str, Any]]
_MAY_BE_DOWN: _Responses = {503: {"description": "A part is down.", "content": {"application/json": {}}}}
_TEXT: _Responses = {200: {"content": {"text/plain": {}}}}


def lily_version() -> str:
    try:
        return version("lily")
    except PackageNotFoundError:  # run from the source tree
        return "0.0.0+source"


class SystemRoutes:
    def __init__(self, health: Health) -> None:
        self._health = health

    def router(self) -> APIRouter:
        router = APIRouter(tags=["system"])
        for path, handler, operation, given in (
            ("/livez", self.live, "getLive", {}),
            ("/readyz", self.ready, "getReady", _MAY_BE_DOWN),
            ("/version", self.version, "getVersion", {}),
            ("/metrics", self.metrics, "getMetrics", _TEXT),
            ("/lily/v1/system/health", self.health, "getHealth", _MAY_BE_DOWN),
        ):
            router.add_api_route(path, handler, methods=["GET"], operation_id=operation, responses=given)
        return router

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
