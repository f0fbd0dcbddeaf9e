"""Why a decision is as it is: the policies that decided, and those that matched and did not."""

from __future__ import annotations

from dataclasses import dataclass

from lily.access.books import Book
from lily.access.decisions import Action, Decision, Resource
from lily.access.principals import Principal
from lily.domain.conditions import Circumstances
from lily.domain.policies import Policy, Scope, ScopeKind


@dataclass(frozen=True, slots=True)
class Match:
    """A policy about this principal, action and resource; `applies`: its conditions hold."""

    policy: Policy
    applies: bool
    decided: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    decision: Decision
    roles: frozenset[str]
    matches: tuple[Match, ...]


def explain(
    book: Book, principal: Principal, action: Action, resource: Resource, circumstances: Circumstances
) -> Explanation:
    """The decision with everything that bears on it; a purge is also a deletion."""
    if action is Action.PURGE:
        hiding = explain(book, principal, Action.DELETE, resource, circumstances)
        if not hiding.decision.allowed:
            return hiding
    mine = book.slice_of(principal)
    decision = mine.decide(action, resource, circumstances)
    holding = mine.holding(circumstances)
    matches = tuple(
        Match(policy, mine.applies(policy, holding), policy.policy_id in decision.reasons)
        for policy in mine.policies
        if policy.access_type.value == action.value and covers(policy.scope, resource)
    )
    return Explanation(decision, book.roles_of(principal), matches)


def covers(scope: Scope, resource: Resource) -> bool:
    """Whether a policy with this scope is about the asset."""
    values: dict[ScopeKind, frozenset[str]] = {
        ScopeKind.ALL: frozenset({""}),
        ScopeKind.ASSET: frozenset({resource.id}),
        ScopeKind.CONTAINED: resource.containers | {resource.id},
        ScopeKind.TAG: resource.tags,
        ScopeKind.TYPE: frozenset({resource.asset_type}),
        ScopeKind.SOURCE: frozenset({resource.data_source}),
    }
    return scope.value in values[scope.kind]
