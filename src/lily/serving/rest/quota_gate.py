"""Refuses who asks for more than the tenant may, before anything is done for the request.

Routes count every request themselves (`admit`). This looks only at callers who are known, and at tenants that
have nothing left: a flood costs what refusing it costs.
"""

from __future__ import annotations

from types import SimpleNamespace

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from lily.domain.errors import QuotaExceeded
from lily.serving.rest.problems import answer

COUNTED = "/lily/v1/"
#: Always possible: to log out, to ask whether a token is valid, how Lily is; and who signs what they send.
NOT_COUNTED = ("/lily/v1/auth/", "/lily/v1/system/", "/lily/v1/webhooks/")
#: What was asked for is not looked at.
_ROUTE = SimpleNamespace(path="over quota")
_BEARER = b"bearer "


class QuotaGate:
    """Pure ASGI."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = _refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await answer(Request(scope), refusal)(scope, receive, send)


def _refusal(scope: Scope) -> QuotaExceeded | None:
    if not scope["path"].startswith(COUNTED) or scope["path"].startswith(NOT_COUNTED):
        return None
    app = scope["app"].state
    credential = app.authenticator.remembered(_bearer(scope))
    tenant = app.tenants.known(credential.principal.tenant_id) if credential else None
    refusal: QuotaExceeded | None = app.tenants.quotas.refusal(tenant) if tenant else None
    if refusal is not None:
        scope["route"] = _ROUTE
        scope["state"]["principal"] = credential.principal
    return refusal


def _bearer(scope: Scope) -> str:
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(given) != 1 or given[0][: len(_BEARER)].lower() != _BEARER:
        return ""
    return str(given[0][len(_BEARER) :].strip().decode("latin-1"))
