"""What every gRPC method does around its answer: who calls, by the same credentials as REST; and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import grpc
import structlog
from opentelemetry.trace import use_span

from lily.access.audit import AuditTrail
from lily.access.calls import Call
from lily.access.credentials import Authenticator
from lily.access.decision_points import Access
from lily.access.notebooks import Notebook
from lily.access.origins import Network, Origin, client_address
from lily.access.requests import Preference
from lily.access.strangers import Attempt, Strangers
from lily.domain.conditions import MAX_PURPOSE, Circumstances
from lily.domain.errors import LilyError, Unauthenticated
from lily.serving.grpc.errors import status_of
from lily.serving.traces import Trace, continue_trace
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
    #: Whose `x-forwarded-for` is believed.
    proxies: Sequence[Network] = ()
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
        metadata = _texts(context)
        trace = continue_trace(metadata.get("traceparent", ""))
        forwarded = metadata.get("x-forwarded-for", "")
        origin = Origin(client_address(_address(context.peer()), forwarded, self.proxies), trace.trace_id)
        with use_span(trace.span, end_on_exit=True):
            return await self._answered(answer, request, context, (metadata, trace, origin))

    async def _answered(
        self,
        answer: Callable[[Call, Message], Awaitable[Message]],
        request: Message,
        context: Any,
        known: tuple[dict[str, str], Trace, Origin],
    ) -> Message:
        metadata, trace, origin = known
        try:
            return await answer(await self._call(metadata, trace, origin), request)
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

    async def _call(self, metadata: dict[str, str], trace: Trace, origin: Origin) -> Call:
        scheme, _, text = metadata.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not text:
            raise Unauthenticated("send the metadata authorization: Bearer <token>; `lily token` prints one")
        principal = (await self.authenticator.bearer(text.strip())).principal
        self.tenants.quotas.admit(await self.tenants.of(principal.tenant_id), writing=False)
        purpose = metadata.get("lily-purpose", "")[:MAX_PURPOSE]
        circumstances = Circumstances(datetime.now(UTC), origin.address, purpose)
        notebook = Notebook(self.trail, principal, origin)
        return Call(principal, _NO_PREFERENCE, trace.header, self.access, circumstances, notebook)


def _texts(context: Any) -> dict[str, str]:
    """The metadata of a call; what is said several times is one list, as proxies write it."""
    texts: dict[str, str] = {}
    for key, value in context.invocation_metadata() or ():
        texts[key] = f"{texts[key]},{value}" if key in texts else str(value)
    return texts


def _address(peer: str) -> str:
    """`ipv4:127.0.0.1:5` or `ipv6:%5B::1%5D:5` as an address."""
    host = unquote(peer).partition(":")[2].rpartition(":")[0]
    return host.removeprefix("[").removesuffix("]")
