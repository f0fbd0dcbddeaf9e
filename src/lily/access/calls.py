"""One call: who makes it, how long they wait, and under which trace; every protected route depends on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials

from lily.access.decisions import Action, authorise
from lily.access.principals import Principal
from lily.access.requests import Preference, read_preference
from lily.access.tokens import verify_token
from lily.domain.errors import Unauthenticated

BEARER = HTTPBearer(
    scheme_name="bearer", bearerFormat="JWT", description="`lily token` prints one.", auto_error=False
)


@dataclass(frozen=True, slots=True)
class Call:
    principal: Principal
    preference: Preference
    traceparent: str

    @property
    def tenant_id(self) -> str:
        return self.principal.tenant_id


async def authenticate(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]
) -> Principal:
    """The caller's principal, from `Authorization: Bearer …`."""
    if credentials is None:
        raise Unauthenticated("send Authorization: Bearer <token>; `lily token` prints one")
    principal = verify_token(request.app.state.token_secret, credentials.credentials)
    request.state.principal = principal
    return principal


def call_for(action: Action) -> Callable[..., Awaitable[Call]]:
    """The dependency of a route that does this."""

    async def authorised_call(
        request: Request, principal: Annotated[Principal, Depends(authenticate)]
    ) -> Call:
        authorise(principal, action)
        return Call(principal, read_preference(request), request.state.traceparent)

    return authorised_call


Reading = Annotated[Call, Depends(call_for(Action.READ))]
Writing = Annotated[Call, Depends(call_for(Action.WRITE))]
