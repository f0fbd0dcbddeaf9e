"""Policies as Cedar sees them, and the question put to it; built as JSON, so that no value is ever syntax."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import cedarpy

from lily.access.decisions import ASSET, NO_POLICY_ALLOWS, Action, Decision
from lily.access.roles import COLUMNS_ONLY, DEFAULT_GRANTS, SCRAPER, Grant
from lily.domain.assets import LEAF_TYPES
from lily.domain.errors import LilyError
from lily.domain.policies import Effect, Grantee, GranteeKind, Policy, Scope, ScopeKind

Json = dict[str, Any]

_EFFECTS = {Effect.ALLOW: "permit", Effect.FORBID: "forbid"}
#: Roles that mean something although no stored policy names them.
DEFAULT_ROLE_NAMES = frozenset(grant.role for grant in DEFAULT_GRANTS)
_GRANTEES = {GranteeKind.USER: "User", GranteeKind.ROLE: "Role", GranteeKind.GROUP: "Group"}
_SCOPES = {
    ScopeKind.ASSET: "Asset",
    ScopeKind.CONTAINED: "Asset",
    ScopeKind.TAG: "Tag",
    ScopeKind.TYPE: "Type",
    ScopeKind.SOURCE: "Source",
}
_ANYTHING = {"op": "All"}


class UndecidedError(LilyError):
    """Cedar could not evaluate a policy we compiled; nothing is allowed then."""

    code = "undecided"


@dataclass(frozen=True, slots=True)
class ResourceView:
    """What the policies that may apply can see of a resource; equal views are decided alike."""

    kind: str
    id: str
    asset_type: str
    data_source: str
    tags: frozenset[str]
    containers: frozenset[str]


@dataclass(frozen=True, slots=True)
class PrincipalView:
    """What policies can see of a principal: whom it is or belongs to, and its columns as a scraper.

    `bound_by` are roles and groups that allow it nothing, but what they forbid is forbidden to it.
    """

    user: str
    roles: frozenset[str]
    groups: frozenset[str]
    columns: frozenset[str]
    bound_by: frozenset[Grantee] = frozenset()


def compile_policy(policy: Policy, condition: str | None) -> Json:
    """A stored policy; one with a condition applies when the context says that the condition holds."""
    return {
        "effect": _EFFECTS[policy.effect],
        "principal": _in(_GRANTEES[policy.grantee.kind], policy.grantee.name),
        "action": {"op": "==", "entity": _entity("Action", policy.access_type.value)},
        "resource": _scope(policy.scope),
        "conditions": [] if condition is None else [{"kind": "when", "body": _holds(condition)}],
    }


def compile_defaults() -> dict[str, Json]:
    """The policies of the default roles, by id."""
    return {grant.policy_id: _grant(grant) for grant in DEFAULT_GRANTS} | {COLUMNS_ONLY: _columns_only()}


def policy_set(policies: dict[str, Json]) -> cedarpy.PolicySet:
    document = {"staticPolicies": policies, "templates": {}, "templateLinks": []}
    return cedarpy.PolicySet.from_json_str(json.dumps(document))


def ask(
    policies: cedarpy.PolicySet,
    principal: PrincipalView,
    action: Action,
    resource: ResourceView,
    holding: Iterable[str],
) -> Decision:
    """Cedar's decision; a policy that cannot be evaluated is our fault and ends in `UndecidedError`."""
    uid = _resource_uid(resource)
    request = {
        "principal": _entity("User", principal.user),
        "action": _entity("Action", action.value),
        "resource": uid,
        "context": {"holds": list(holding)},
    }
    result = cedarpy.is_authorized(request, policies, [_principal(principal), _resource(resource, uid)])
    if result.diagnostics.errors:
        raise UndecidedError(f"a policy could not be evaluated: {result.diagnostics.errors[0]}")
    reasons = tuple(sorted(result.diagnostics.reasons))
    return Decision(result.allowed, reasons) if reasons else NO_POLICY_ALLOWS


def _grant(grant: Grant) -> Json:
    return {
        "effect": "permit",
        "principal": _in("Role", grant.role),
        "action": {"op": "in", "entities": [_entity("Action", action) for action in sorted(grant.actions)]},
        "resource": _ANYTHING if grant.kind is None else _in("Kind", grant.kind),
        "conditions": [],
    }


def _columns_only() -> Json:
    """forbid (principal in Role::"scraper", …) when { a leaf } unless { resource in principal.columns }."""
    leaves = {"Set": [{"Value": {"__entity": _entity("Type", leaf)}} for leaf in sorted(LEAF_TYPES)]}
    columns = {".": {"left": {"Var": "principal"}, "attr": "columns"}}
    return {
        "effect": "forbid",
        "principal": _in("Role", SCRAPER),
        "action": _ANYTHING,
        "resource": _ANYTHING,
        "conditions": [
            {"kind": "when", "body": {"in": {"left": {"Var": "resource"}, "right": leaves}}},
            {"kind": "unless", "body": {"in": {"left": {"Var": "resource"}, "right": columns}}},
        ],
    }


def _holds(condition: str) -> Json:
    holds = {".": {"left": {"Var": "context"}, "attr": "holds"}}
    return {"contains": {"left": holds, "right": {"Value": condition}}}


def _scope(scope: Scope) -> Json:
    if scope.kind is ScopeKind.ALL:
        return _in("Kind", ASSET)
    entity = _entity(_SCOPES[scope.kind], scope.value)
    return {"op": "==" if scope.kind is ScopeKind.ASSET else "in", "entity": entity}


def _principal(view: PrincipalView) -> Json:
    parents = [_entity("Role", role) for role in view.roles] + [
        _entity("Group", name) for name in view.groups
    ]
    parents += [_entity(_GRANTEES[each.kind], each.name) for each in view.bound_by]
    columns = [{"__entity": _entity("Asset", column)} for column in view.columns]
    return {"uid": _entity("User", view.user), "attrs": {"columns": columns}, "parents": parents}


def _resource_uid(view: ResourceView) -> Json:
    return _entity("Asset" if view.kind == ASSET else "Thing", view.id)


def _resource(view: ResourceView, uid: Json) -> Json:
    parents = [
        _entity("Kind", view.kind),
        _entity("Type", view.asset_type),
        _entity("Source", view.data_source),
        *(_entity("Tag", tag) for tag in view.tags),
        *(_entity("Asset", container) for container in view.containers),
    ]
    return {"uid": uid, "attrs": {}, "parents": parents}


def _in(kind: str, name: str) -> Json:
    return {"op": "in", "entity": _entity(kind, name)}


def _entity(kind: str, name: str) -> Json:
    return {"type": kind, "id": name}
