"""The routes that tell decisions: many at once, one explained, and what a change of the rules would do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from lily.access.assets import AssetGuard
from lily.access.calls import Calling
from lily.access.decisions import ASSET, Action, Decision, Resource
from lily.access.explanations import Explanation, explain
from lily.access.people import People
from lily.access.plans import Change, Effect, plan
from lily.access.principals import Principal
from lily.access.questions import MAX_QUESTIONS, Question, answer_questions
from lily.access.routers import Route, add_routes
from lily.domain.assets import Traits
from lily.domain.conditions import Circumstances
from lily.repositories.postgres.asset_lists import AssetLists
from lily.serving.rest.access_answers import DecisionList, ExplanationDocument, PlannedEffects
from lily.serving.rest.access_control import ReadingPolicies
from lily.serving.rest.answers import answer
from lily.serving.rest.bodies import Body, body_of, read_model
from lily.serving.rest.policy_documents import (
    AssetName,
    Name,
    PolicyBody,
    RoleBody,
    ScraperPolicyBody,
    policy_document,
)

DEACTIVATED = Decision(False, ("they are deactivated",))
Actions = Literal["READ", "WRITE", "DELETE", "PURGE", "ADMINISTER", "AUDIT"]


class Who(Body):
    """Somebody; leave it out to ask about yourself."""

    subject: Name
    roles: list[Name] = Field(default_factory=list, max_length=100)
    groups: list[Name] = Field(default_factory=list, max_length=1000)

    def principal(self, tenant_id: str) -> Principal:
        return Principal(tenant_id, self.subject, frozenset(self.roles), frozenset(self.groups))


class When(Body):
    """Under which circumstances; what is left out is as in this call."""

    at: datetime | None = None
    address: str | None = Field(default=None, max_length=64)
    purpose: str | None = Field(default=None, max_length=128)

    def circumstances(self, known: Circumstances) -> Circumstances:
        said = {name: value for name, value in dict(self).items() if value is not None}
        at = said.get("at", known.at)
        return replace(known, **said | {"at": at if at.tzinfo else at.replace(tzinfo=known.at.tzinfo)})


class AskedAbout(Body):
    """An action on an asset, or on something of another kind. The last three describe an asset to be made."""

    action: Actions
    asset_id: AssetName | None = None
    kind: Name = ASSET
    asset_type: Name = "table"
    data_source: Name | None = None
    tags: list[Name] = Field(default_factory=list, max_length=256)

    def question(self) -> Question:
        traits = Traits("", self.asset_type, self.data_source or "", user_tags=frozenset(self.tags))
        return Question(Action(self.action), self.kind, self.asset_id or "", traits)


class DecisionsBody(Body):
    principal: Who | None = None
    circumstances: When = Field(default_factory=When)
    decisions: list[AskedAbout] = Field(min_length=1, max_length=MAX_QUESTIONS)


class ExplainBody(Body):
    principal: Who
    action: Actions
    asset_id: AssetName
    circumstances: When = Field(default_factory=When)


class ReplacementBody(PolicyBody):
    policy_id: str = Field(description="The policy this one takes the place of.")


class PlanBody(Body):
    """A change that is not made: only what it would do is answered."""

    add: list[PolicyBody] = Field(default_factory=list, max_length=100)
    replace: list[ReplacementBody] = Field(default_factory=list, max_length=100)
    remove: list[str] = Field(default_factory=list, max_length=1000)
    roles: dict[str, RoleBody | None] = Field(default_factory=dict)
    scraper_policies: dict[str, ScraperPolicyBody | None] = Field(default_factory=dict)
    group_roles: dict[str, list[Name]] = Field(
        default_factory=dict, description="The roles a group gives its members, instead of those it does."
    )

    def change(self) -> Change:
        return Change(
            put=(
                *(body.policy() for body in self.add),
                *(body.policy(body.policy_id) for body in self.replace),
            ),
            removed=frozenset(self.remove),
            roles={name: body.role(name) if body else None for name, body in self.roles.items()},
            scraper_policies={
                group: body.scraper_policy(group) if body else None
                for group, body in self.scraper_policies.items()
            },
            group_roles={group: frozenset(roles) for group, roles in self.group_roles.items()},
        )


@dataclass(frozen=True)
class DecisionRoutes:
    guard: AssetGuard
    lists: AssetLists
    people: People

    def router(self) -> APIRouter:
        asked, explained, planned = (body_of(each) for each in (DecisionsBody, ExplainBody, PlanBody))
        return add_routes(
            APIRouter(prefix="/lily/v1/access", tags=["access"]),
            Route("/decisions", "POST", self.decide, "decideAccess", DecisionList, asked),
            Route("/explain", "POST", self.explain, "explainAccess", ExplanationDocument, explained),
            Route("/plan", "POST", self.plan, "planAccess", PlannedEffects, planned),
        )

    async def decide(self, request: Request, call: Calling) -> Response:
        """Whether the caller, or for readers of policies anybody, may do each of these things."""
        body = await read_model(request, DecisionsBody)
        who = body.principal.principal(call.tenant_id) if body.principal else call.principal
        asked = [each.question() for each in body.decisions]
        circumstances = (
            body.circumstances.circumstances(call.circumstances) if body.principal else call.circumstances
        )
        decisions = await answer_questions(self.guard, call, who, asked, circumstances)
        may_know_why = (await call.decide(Action.READ, Resource(call.tenant_id, "policy"))).allowed
        return answer({"decisions": [_decision(each, may_know_why) for each in decisions]})

    async def explain(self, request: Request, call: ReadingPolicies) -> Response:
        """Which policies decide, and which match and do not."""
        body = await read_model(request, ExplainBody)
        resource = await self.guard.resource(call, body.asset_id)
        who, active = await self.people.complete(body.principal.principal(call.tenant_id))
        await call.access.refresh(call.tenant_id)
        explanation = explain(
            call.access.book(call.tenant_id),
            who,
            Action(body.action),
            resource,
            body.circumstances.circumstances(call.circumstances),
        )
        return answer(explanation_document(explanation, who, active))

    async def plan(self, request: Request, call: ReadingPolicies) -> Response:
        """Who would gain and lose what, if the rules were changed so and all conditions held."""
        body = await read_model(request, PlanBody)
        await call.access.refresh(call.tenant_id)
        rules = call.access.book(call.tenant_id).rules
        known = await self.people.known(call.tenant_id)
        effects = await plan(call.tenant_id, rules, body.change(), self.lists, known)
        return answer({"effects": [effect_document(effect) for effect in effects]})


def explanation_document(explanation: Explanation, who: Principal, active: bool | None) -> dict[str, Any]:
    """`active` is None for somebody the directory does not know."""
    decision = DEACTIVATED if active is False else explanation.decision
    return {
        "allowed": decision.allowed,
        "reasons": list(decision.reasons),
        "active": active,
        "roles": sorted(explanation.roles),
        "groups": sorted(who.groups),
        "policies": [
            policy_document(match.policy) | {"applies": match.applies, "decided": match.decided}
            for match in explanation.matches
        ],
    }


def effect_document(effect: Effect) -> dict[str, Any]:
    return {
        "principals": [{"kind": str(each.kind), "name": each.name} for each in effect.principals],
        "access_type": effect.access_type.value,
        "gains": effect.difference.gained,
        "loses": effect.difference.lost,
        "gained_examples": effect.difference.gained_examples,
        "lost_examples": effect.difference.lost_examples,
    }


def _decision(decision: Decision, with_reasons: bool) -> dict[str, Any]:
    return {"allowed": decision.allowed} | ({"reasons": list(decision.reasons)} if with_reasons else {})
