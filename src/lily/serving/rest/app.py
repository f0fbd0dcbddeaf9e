"""The FastAPI application: routes in, problems and OpenAPI out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from lily.access.audit import AuditTrail
from lily.access.cookies import Cookies
from lily.access.credentials import Authenticator
from lily.access.decision_points import Access
from lily.access.origins import Network
from lily.serving.rest.browsers import allow_origins
from lily.serving.rest.documents import Problem
from lily.serving.rest.exchanges import Exchanges
from lily.serving.rest.problems import MEDIA_TYPE, install
from lily.serving.rest.quota_gate import QuotaGate
from lily.serving.rest.system import lily_version
from lily.tenancy.routes import TenantRoutes

_DESCRIPTION = "Facts about data assets in, a catalog out. Errors are problem documents (RFC 9457)."
_REFERENCE = "#/components/schemas/{model}"


@dataclass(frozen=True)
class Surroundings:
    """Which proxies are believed, the pages of which origins may call, and where browsers see Lily."""

    proxies: Sequence[Network] = ()
    origins: Sequence[str] = ()
    public_url: str = ""


@dataclass(frozen=True)
class AppParts:
    """What an application is made of; `running` opens and closes what its routes use."""

    authenticator: Authenticator
    cookies: Cookies
    access: Access
    trail: AuditTrail
    surroundings: Surroundings
    tenants: TenantRoutes
    routers: Sequence[APIRouter]
    body_schemas: dict[str, Any]
    running: Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_app(parts: AppParts) -> FastAPI:
    app = FastAPI(
        title="Lily",
        version=lily_version(),
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=parts.running,
    )
    app.state.access = parts.access
    app.state.trail = parts.trail
    app.state.proxies = parts.surroundings.proxies
    app.state.origins = parts.surroundings.origins
    app.state.public_url = parts.surroundings.public_url
    app.state.authenticator = parts.authenticator
    app.state.cookies = parts.cookies
    app.state.tenants = parts.tenants
    # The routes themselves, not routers within a router: what is served can be listed in one loop.
    app.router.routes.extend(route for router in parts.routers for route in router.routes)
    install(app)
    app.add_middleware(QuotaGate)
    if parts.surroundings.origins:
        allow_origins(app, parts.surroundings.origins)
    app.add_middleware(Exchanges)
    app.openapi = lambda: _openapi(app, parts.body_schemas)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI, body_schemas: dict[str, Any]) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas.update(body_schemas)
        schemas.update(_problem_schemas())
        for operations in document["paths"].values():
            for operation in operations.values():
                _declare_problems(operation)
        app.openapi_schema = document
    return app.openapi_schema


def _problem_schemas() -> dict[str, Any]:
    schema = TypeAdapter(Problem).json_schema(ref_template=_REFERENCE)
    return {**schema.pop("$defs"), "Problem": schema}


def _declare_problems(operation: dict[str, Any]) -> None:
    """Every operation may answer with a problem instead; FastAPI's own 422 is never sent."""
    operation["responses"].pop("422", None)
    reference = {"$ref": _REFERENCE.format(model="Problem")}
    problem = {"description": "A problem.", "content": {MEDIA_TYPE: {"schema": reference}}}
    operation["responses"].setdefault("default", problem)
