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

MAX_QUESTIONS = 10_000
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
    resources = [_resource(call.tenant_id, question, known) for question in asked]
    there = [(who, question.action, each) for question, each in zip(asked, resources, strict=True) if each]
    decided = call.access.decide_batch(call.tenant_id, there, circumstances)
    for (_, action, resource), decision in zip(there, decided, strict=True):
        if not decision.allowed:  # whoever asks acts on it
            reason = f"asked for {who.subject}: {', '.join(decision.reasons)}"
            call.notebook.write(action.value.lower(), (resource.kind, resource.id), False, reason)
    decisions = iter(decided)
    return [next(decisions) if resource else NOTHING_THERE for resource in resources]


def _resource(tenant_id: str, question: Question, known: dict[str, Resource]) -> Resource | None:
    """What is asked about; None for an asset that would have to exist."""
    if question.kind != ASSET:
        return Resource(tenant_id, question.kind, question.id)
    if question.id in known or question.action is not Action.WRITE:
        return known.get(question.id)
    return resource_of(tenant_id, replace(question.traits, asset_id=question.id))
