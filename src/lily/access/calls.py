"""One call: who makes it, how long they wait, and under which trace; every protected route depends on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from fastapi.security.base import SecurityBase

from lily.access.admission import admit
from lily.access.cookies import Cookies
from lily.access.credentials import Authenticator, Credential
from lily.access.decision_points import Access
from lily.access.decisions import ASSET, BEYOND_SCOPES, Action, Decision, Resource
from lily.access.notebooks import Draft, Notebook
from lily.access.origins import Origin, origin_of
from lily.access.principals import Principal
from lily.access.requests import Preference, read_preference
from lily.domain.conditions import MAX_PURPOSE, Circumstances
from lily.domain.errors import Forbidden, Unauthenticated

BEARER = HTTPBearer(
    scheme_name="bearer", description="A JWT or an API key; `lily token` prints one.", auto_error=False
)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls, how, and the decision point their call is put to."""

    principal: Principal
    preference: Preference
    traceparent: str
    access: Access
    circumstances: Circumstances
    notebook: Notebook

    @property
    def tenant_id(self) -> str:
        return self.principal.tenant_id

    async def decide(self, action: Action, resource: Resource) -> Decision:
        """Whether the caller may do this, by the rules in force now."""
        await self.access.refresh(self.tenant_id)
        return self.access.decide(self.principal, action, resource, self.circumstances)

    async def settle(self, attempt: Callable[[Call], Awaitable[T]]) -> T:
        """What an attempt that has to look things up decides, by rules that did not change meanwhile."""

        async def drafted(access: Access) -> tuple[T, Draft]:
            draft = Draft()
            return await attempt(replace(self, access=access, notebook=self.notebook.on(draft))), draft

        settled, draft = await self.access.settle(self.tenant_id, drafted)
        self.notebook.adopt(draft)
        return settled

    async def require(self, action: Action, resource: Resource) -> Decision:
        """The decision when the caller may do this; `Forbidden` otherwise. The audit knows of either."""
        decision = await self.decide(action, resource)
        self.notebook.note(action, resource, decision)
        if not decision.allowed:
            raise forbidden(self.principal, action, decision)
        return decision


class Authenticating(SecurityBase, Generic[T]):
    """What a protected route depends on: it knows the caller first, and the contract tells that it asks for
    a credential. It is one dependency: FastAPI takes 15 µs for every dependency of a dependency."""

    model, scheme_name = BEARER.model, BEARER.scheme_name

    async def __call__(self, request: Request) -> T:
        return await self.of(request, await authenticate(request))

    async def of(self, request: Request, principal: Principal) -> T:
        raise NotImplementedError


async def authenticate(request: Request) -> Principal:
    """The caller's principal, from `Authorization: Bearer …` or else from the console's cookie."""
    app = request.app.state
    credentials = await BEARER(request)
    if credentials is not None:
        credential = await app.authenticator.bearer(credentials.credentials)
    else:
        credential = await _from_cookie(request, app.authenticator, app.cookies)
    request.state.credential = credential
    request.state.principal = credential.principal
    principal: Principal = credential.principal
    return principal


class _Known(Authenticating[Principal]):
    """Whoever it is, nothing is counted or decided."""

    async def of(self, request: Request, principal: Principal) -> Principal:  # noqa: ARG002 - for all alike
        return principal


Authenticated = Annotated[Principal, Depends(_Known())]


async def _from_cookie(request: Request, authenticator: Authenticator, cookies: Cookies) -> Credential:
    value = request.cookies.get(cookies.session_name)
    if value is None or "authorization" in request.headers:
        raise Unauthenticated("send Authorization: Bearer <token>; `lily token` prints one")
    credential = await authenticator.cookie(value)
    cookies.check_csrf(request, credential.principal.credential_id)
    return credential


def _call_of(request: Request, principal: Principal) -> Call:
    """Who calls, from where and why, before anything is counted or decided."""
    app = request.app.state
    origin = origin_of(request)
    request.state.notebook = notebook = Notebook(app.trail, principal, origin)
    circumstances = _circumstances(request, origin)
    preference = read_preference(request)
    return Call(principal, preference, request.state.traceparent, app.access, circumstances, notebook)


class _CallFor(Authenticating[Call]):
    def __init__(self, action: Action, kind: str) -> None:
        self.action = action
        self.kind = kind

    async def of(self, request: Request, principal: Principal) -> Call:
        call, action = _call_of(request, principal), self.action
        await admit(request, call.principal, writing=action is not Action.READ)
        if self.kind != ASSET:
            await call.require(action, Resource(call.tenant_id, self.kind))
            return call
        await call.access.refresh(call.tenant_id)
        possible = call.access.may_ever(call.principal, action)
        if not possible.allowed:
            call.notebook.note(action, Resource(call.tenant_id), possible)
            raise forbidden(call.principal, action, possible)
        return call


def call_for(action: Action, kind: str = ASSET) -> Callable[..., Awaitable[Call]]:
    """The dependency of a route that does this.

    About things of another kind than assets this decides. About assets it refuses only callers who may do it
    to no asset at all; the route then decides about each asset it concerns (`AssetGuard`).
    """
    return _CallFor(action, kind)


def forbidden(principal: Principal, action: Action, decision: Decision) -> Forbidden:
    """What a denied caller is told: nothing about the resource."""
    who = f"the role {', '.join(sorted(principal.roles))}" if principal.roles else "a caller without a role"
    if decision is BEYOND_SCOPES:
        return Forbidden(
            f"this credential has no scope {action.scope!r}; use one that has", action=action.value
        )
    return Forbidden(
        f"{who} may not {action.value} this; an administrator can explain why", action=action.value
    )


def _circumstances(request: Request, origin: Origin) -> Circumstances:
    """When, from where, and for which purpose as the caller declares it in `Lily-Purpose`."""
    purpose = request.headers.get("lily-purpose", "")[:MAX_PURPOSE]
    return Circumstances(datetime.now(UTC), origin.address, purpose)


class _Admitted(Authenticating[Call]):
    """The dependency of a route that decides by itself what the caller may do; the request is counted."""

    async def of(self, request: Request, principal: Principal) -> Call:
        call = _call_of(request, principal)
        await admit(request, call.principal, writing=False)
        return call


Calling = Annotated[Call, Depends(_Admitted())]
Reading = Annotated[Call, Depends(call_for(Action.READ))]
Writing = Annotated[Call, Depends(call_for(Action.WRITE))]
Deleting = Annotated[Call, Depends(call_for(Action.DELETE))]
