"""`lily.access.v1.AccessService`: decisions for those who enforce them elsewhere."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import grpc
import structlog

from lily.access.assets import AssetGuard
from lily.access.audit import AuditTrail
from lily.access.calls import Call
from lily.access.credentials import Authenticator
from lily.access.decision_points import Access
from lily.access.decisions import ASSET, Action, Resource
from lily.access.notebooks import Notebook
from lily.access.origins import Origin
from lily.access.principals import Principal
from lily.access.questions import MAX_QUESTIONS, Question, answer_questions
from lily.access.requests import Preference, check_id
from lily.domain.assets import Traits
from lily.domain.conditions import MAX_PURPOSE, Circumstances
from lily.domain.errors import InvalidInput, LilyError, Unauthenticated
from lily.serving.grpc import access_pb2
from lily.serving.grpc.errors import status_of

SERVICE = "lily.access.v1.AccessService"
_NO_PREFERENCE = Preference(respond_async=False, wait_seconds=None)

#: Generated code has no types.
Message = Any
_messages: Any = access_pb2
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class AccessService:
    authenticator: Authenticator
    access: Access
    guard: AssetGuard
    trail: AuditTrail

    def handler(self) -> grpc.GenericRpcHandler:
        decide = grpc.unary_unary_rpc_method_handler(
            self.decide,
            request_deserializer=_messages.DecideRequest.FromString,
            response_serializer=_messages.DecideResponse.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"Decide": decide})

    async def decide(self, request: Message, context: Any) -> Message:
        """Answer, or end the call with the status of what went wrong."""
        try:
            return await self._decide(request, await self._call(context))
        except LilyError as error:
            return await context.abort(status_of(error), error.message)
        except (asyncio.CancelledError, grpc.aio.AbortError):
            raise
        except Exception:  # the main loop: whatever it is, the caller gets a status and we get the trace
            _log.exception("grpc_failed")
            return await context.abort(grpc.StatusCode.INTERNAL, "something went wrong on our side")

    async def _decide(self, request: Message, call: Call) -> Message:
        if not 1 <= len(request.questions) <= MAX_QUESTIONS:
            raise InvalidInput(f"ask 1 to {MAX_QUESTIONS:,} questions at once")
        who, known = call.principal, call.circumstances
        if request.HasField("principal"):
            said = request.principal
            who = Principal(call.tenant_id, said.subject, frozenset(said.roles), frozenset(said.groups))
            known = _circumstances(request.circumstances, known)
        asked = [_question(each) for each in request.questions]
        decisions = await answer_questions(self.guard, call, who, asked, known)
        may_know_why = (await call.decide(Action.READ, Resource(call.tenant_id, "policy"))).allowed
        return _messages.DecideResponse(
            decisions=[
                _messages.Decision(allowed=each.allowed, reasons=each.reasons if may_know_why else ())
                for each in decisions
            ]
        )

    async def _call(self, context: Any) -> Call:
        """Who calls, by the same credentials as everywhere."""
        metadata = {key: str(value) for key, value in context.invocation_metadata() or ()}
        scheme, _, text = metadata.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not text:
            raise Unauthenticated("send the metadata authorization: Bearer <token>; `lily token` prints one")
        principal = (await self.authenticator.bearer(text.strip())).principal
        origin = Origin(_address(context.peer()), secrets.token_hex(16))
        purpose = metadata.get("lily-purpose", "")[:MAX_PURPOSE]
        circumstances = Circumstances(datetime.now(UTC), origin.address, purpose)
        notebook = Notebook(self.trail, principal, origin)
        return Call(principal, _NO_PREFERENCE, "", self.access, circumstances, notebook)


def _question(asked: Message) -> Question:
    if asked.action not in Action.__members__:
        raise InvalidInput(f"unknown action {asked.action[:64]!r}; known: {', '.join(Action)}")
    tags = frozenset(asked.tags)
    traits = Traits("", asked.asset_type or "table", asked.data_source, user_tags=tags)
    return Question(Action(asked.action), asked.kind or ASSET, check_id(asked.asset_id), traits)


def _circumstances(said: Message, known: Circumstances) -> Circumstances:
    return replace(known, address=said.address or known.address, purpose=said.purpose or known.purpose)


def _address(peer: str) -> str:
    """`ipv4:127.0.0.1:5` or `ipv6:%5B::1%5D:5` as an address."""
    host = unquote(peer).partition(":")[2].rpartition(":")[0]
    return host.removeprefix("[").removesuffix("]")
