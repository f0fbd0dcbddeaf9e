"""What every gRPC method does around its answer: who calls, by the same credentials as REST; and errors."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import grpc
import structlog

from lily.access.audit import AuditTrail
from lily.access.calls import Call
from lily.access.credentials import Authenticator
from lily.access.decision_points import Access
from lily.access.notebooks import Notebook
from lily.access.origins import Origin
from lily.access.requests import Preference
from lily.access.strangers import Attempt, Strangers
from lily.domain.conditions import MAX_PURPOSE, Circumstances
from lily.domain.errors import LilyError, Unauthenticated
from lily.serving.grpc.errors import status_of
from lily.tenancy.routes import TenantRoutes

_NO_PREFERENCE = Preference(respond_async=False, wait_seconds=None)

#: Generated code has no types.
Message = Any
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Calls:
    authenticator: Authenticator
    access: Access
    trail: AuditTrail
    tenants: TenantRoutes
    _strangers: Strangers = field(default_factory=Strangers)

    def method(
        self, answer: Callable[[Call, Message], Awaitable[Message]], takes: Message, gives: Message
    ) -> grpc.RpcMethodHandler:
        """The handler of a method that answers one message with another."""

        async def handle(request: Message, context: Any) -> Message:
            return await self.answer(answer, request, context)

        return grpc.unary_unary_rpc_method_handler(
            handle, request_deserializer=takes.FromString, response_serializer=gives.SerializeToString
        )

    async def answer(
        self, answer: Callable[[Call, Message], Awaitable[Message]], request: Message, context: Any
    ) -> Message:
        """Answer, or end the call with the status of what went wrong."""
        origin = Origin(_address(context.peer()), secrets.token_hex(16))
        try:
            return await answer(await self._call(context, origin), request)
        except Unauthenticated as error:
            attempt = Attempt(origin, "grpc", type(request).DESCRIPTOR.full_name, error.message)
            self._strangers.note(self.trail, attempt)
            return await context.abort(status_of(error), error.message)
        except LilyError as error:
            return await context.abort(status_of(error), error.message)
        except (asyncio.CancelledError, grpc.aio.AbortError):
            raise
        except Exception:  # the main loop: whatever it is, the caller gets a status and we get the trace
            _log.exception("grpc_failed")
            return await context.abort(grpc.StatusCode.INTERNAL, "something went wrong on our side")

    async def _call(self, context: Any, origin: Origin) -> Call:
        metadata = {key: str(value) for key, value in context.invocation_metadata() or ()}
        scheme, _, text = metadata.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not text:
            raise Unauthenticated("send the metadata authorization: Bearer <token>; `lily token` prints one")
        principal = (await self.authenticator.bearer(text.strip())).principal
        self.tenants.quotas.admit(await self.tenants.of(principal.tenant_id), writing=False)
        purpose = metadata.get("lily-purpose", "")[:MAX_PURPOSE]
        circumstances = Circumstances(datetime.now(UTC), origin.address, purpose)
        notebook = Notebook(self.trail, principal, origin)
        return Call(principal, _NO_PREFERENCE, "", self.access, circumstances, notebook)


def _address(peer: str) -> str:
    """`ipv4:127.0.0.1:5` or `ipv6:%5B::1%5D:5` as an address."""
    host = unquote(peer).partition(":")[2].rpartition(":")[0]
    return host.removeprefix("[").removesuffix("]")
