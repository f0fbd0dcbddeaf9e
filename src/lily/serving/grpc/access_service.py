"""`lily.access.v1.AccessService`: decisions for those who enforce them elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import grpc

from lily.access.assets import AssetGuard
from lily.access.calls import Call
from lily.access.decisions import ASSET, Action, Resource
from lily.access.principals import Principal
from lily.access.questions import MAX_QUESTIONS, Question, answer_questions
from lily.access.requests import check_id
from lily.domain.assets import Traits
from lily.domain.conditions import Circumstances
from lily.domain.errors import InvalidInput
from lily.serving.grpc import access_pb2
from lily.serving.grpc.calls import Calls, Message

SERVICE = "lily.access.v1.AccessService"

_messages: Any = access_pb2


@dataclass(frozen=True)
class AccessService:
    calls: Calls
    guard: AssetGuard

    def handler(self) -> grpc.GenericRpcHandler:
        decide = self.calls.method(self._decide, _messages.DecideRequest, _messages.DecideResponse)
        return grpc.method_handlers_generic_handler(SERVICE, {"Decide": decide})

    async def _decide(self, call: Call, request: Message) -> Message:
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


def _question(asked: Message) -> Question:
    if asked.action not in Action.__members__:
        raise InvalidInput(f"unknown action {asked.action[:64]!r}; known: {', '.join(Action)}")
    tags = frozenset(asked.tags)
    traits = Traits("", asked.asset_type or "table", asked.data_source, user_tags=tags)
    return Question(Action(asked.action), asked.kind or ASSET, check_id(asked.asset_id), traits)


def _circumstances(said: Message, known: Circumstances) -> Circumstances:
    return replace(known, address=said.address or known.address, purpose=said.purpose or known.purpose)
