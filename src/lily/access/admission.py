"""Whether a tenant's request is taken at all: before anything is read for it or decided about it."""

from __future__ import annotations

from fastapi import Request

from lily.access.principals import Principal


async def admit(request: Request, principal: Principal, *, writing: bool) -> None:
    """Count the request; `QuotaExceeded` when the tenant asks for more than it may."""
    routes = request.app.state.tenants
    tenant = await routes.of(principal.tenant_id)
    request.state.rate_limit = routes.quotas.admit(tenant, writing=writing)
