"""Decisions for others to act on: many questions at once, about oneself or, for some, about anybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lily.access.assets import AssetGuard, resource_of
from lily.access.calls import Call
from lily.access.decisions import ASSET, Action, Decision, Resource
from lily.access.principals import Principal
from lily.domain.assets import Traits
from lily.domain.conditions import Circumstances

NOTHING_THERE = Decision(False, ("there is no such asset",))


@dataclass(frozen=True, slots=True)
class Question:
    """May they do this to that; `traits` describe an asset that does not exist yet."""

    action: Action
    kind: str
    id: str
    traits: Traits


async def answer_questions(
    guard: AssetGuard, call: Call, who: Principal, asked: Sequence[Question], circumstances: Circumstances
) -> list[Decision]:
    """One decision per question, all by the same rules. About somebody else only for readers of policies."""
    if who is not call.principal:
        await call.require(Action.READ, Resource(call.tenant_id, "policy"))
    asset_ids = list({question.id for question in asked if question.kind == ASSET})
    known = await guard.known_resources(call.tenant_id, asset_ids)
    await call.access.refresh(call.tenant_id)
    return [_answer(call, who, question, known, circumstances) for question in asked]


def _answer(
    call: Call, who: Principal, question: Question, known: dict[str, Resource], circumstances: Circumstances
) -> Decision:
    resource = Resource(call.tenant_id, question.kind, question.id)
    if question.kind == ASSET:
        if question.id not in known and question.action is not Action.WRITE:
            return NOTHING_THERE
        hypothetical = resource_of(call.tenant_id, replace(question.traits, asset_id=question.id))
        resource = known.get(question.id, hypothetical)
    return call.access.decide(who, question.action, resource, circumstances)
