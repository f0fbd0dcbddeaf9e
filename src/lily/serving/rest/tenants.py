"""The routes about a tenant itself: what it may use, what it has set for itself, and which sources it has."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from pydantic_core import from_json, to_json

from lily.access.calls import Call, Reading, call_for
from lily.access.decisions import Action, Resource
from lily.access.requests import ContentTooLarge, read_body, read_expected_versions
from lily.access.routers import Route, add_routes
from lily.domain.errors import InvalidInput, NotFound, VersionConflict
from lily.domain.tenants import SHARED
from lily.repositories.postgres.tenants import Tenant, Tenants, TenantSources
from lily.serving.rest.documents import TenantConfig, TenantSourceList
from lily.tenancy.quotas import Quotas

Administering = Annotated[Call, Depends(call_for(Action.ADMINISTER, "tenant"))]

MAX_SETTINGS_BYTES = 64 * 1024
_TENANT = "/lily/v1/tenants/{tenant_id}"
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"settings": {"type": "object"}},
                    "required": ["settings"],
                    "additionalProperties": False,
                }
            }
        },
    }
}


class TenantRest:
    """Everybody sees their own tenant; of another one they do not learn whether it exists."""

    def __init__(self, tenants: Tenants, sources: TenantSources, quotas: Quotas) -> None:
        self._tenants = tenants
        self._sources = sources
        self._quotas = quotas

    def router(self) -> APIRouter:
        return add_routes(
            APIRouter(prefix=_TENANT, tags=["tenants"]),
            Route("/config", "GET", self.get_config, "getTenantConfig", TenantConfig),
            Route("/config", "PUT", self.put_config, "putTenantConfig", TenantConfig, _BODY),
            Route("/sources", "GET", self.get_sources, "getTenantSources", TenantSourceList),
        )

    async def get_config(self, call: Reading, tenant_id: str) -> Response:
        """Where the tenant lives, its limits, what it uses, and its own settings."""
        return self._answer(await self._tenants.find_or_make(_own(call, tenant_id)))

    async def put_config(self, request: Request, call: Administering, tenant_id: str) -> Response:
        """Replace the tenant's own settings; `If-Match` guards against others. Limits are the operator's."""
        settings = _settings(await read_body(request))
        tenant = await self._tenants.find_or_make(_own(call, tenant_id))
        expected = read_expected_versions(request)
        if expected is not None and not expected.allow(tenant.version):
            raise VersionConflict(
                f"If-Match does not allow version {tenant.version}; read it again, then decide"
            )
        await self._tenants.put_settings(tenant_id, settings, tenant.version if expected else None)
        return self._answer(await self._tenants.find_or_make(tenant_id))

    async def get_sources(self, call: Reading, tenant_id: str) -> Response:
        """The tenant's data sources, the largest first; counted now and then, `counted_at` tells when."""
        own = _own(call, tenant_id)
        await call.access.refresh(own)
        sees_all = call.access.decide_for_all(call.principal, Action.READ, call.circumstances)
        if sees_all is None or not sees_all.allowed:
            await call.require(Action.ADMINISTER, Resource(own, "tenant"))
        sources = await self._sources.of(own)
        content = {"tenant_id": tenant_id, "sources": [asdict(source) for source in sources]}
        return Response(to_json(content), media_type="application/json")

    def _answer(self, tenant: Tenant) -> Response:
        content = {
            "tenant_id": tenant.tenant_id,
            "isolation": "shared" if tenant.cell == SHARED else "dedicated",
            "cell": tenant.cell,
            "state": tenant.state,
            "limits": asdict(self._quotas.limits(tenant)),
            "usage": {"assets": tenant.assets, "bytes": tenant.bytes},
            "settings": tenant.settings,
            "version": tenant.version,
            "created_at": tenant.created_at,
            "updated_at": tenant.updated_at,
        }
        headers = {"etag": f'"{tenant.version}"', "cache-control": "private, no-cache"}
        return Response(to_json(content), headers=headers, media_type="application/json")


def _own(call: Call, tenant_id: str) -> str:
    if tenant_id != call.tenant_id:
        raise NotFound(f"there is no tenant {tenant_id!r} that you belong to")
    return tenant_id


def _settings(body: bytes) -> dict[str, Any]:
    if len(body) > MAX_SETTINGS_BYTES:
        raise ContentTooLarge(f"the settings are larger than {MAX_SETTINGS_BYTES:,} bytes; keep less in them")
    try:
        content = from_json(body)
    except ValueError as error:
        raise InvalidInput(f"the body is not JSON: {error}") from None
    if (
        not isinstance(content, dict)
        or set(content) != {"settings"}
        or not isinstance(content["settings"], dict)
    ):
        raise InvalidInput('the body must be {"settings": {…}}; limits are set with `lily tenant config`')
    settings: dict[str, Any] = content["settings"]
    if "\\u0000" in to_json(settings).decode():
        raise InvalidInput(
            "the settings hold the character U+0000, which PostgreSQL cannot keep; leave it out"
        )
    return settings
