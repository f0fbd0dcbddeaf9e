"""The rules of access in thirty lines of plain Python: the oracle that every interface is compared with."""

from __future__ import annotations

from collections.abc import Iterable

from lily.access.decisions import Action, Resource
from lily.access.principals import Principal
from lily.domain.conditions import Circumstances
from lily.domain.policies import Effect, Grantee, GranteeKind, Policy, Rules, ScopeKind

LEAVES = {"column", "bi_field", "field"}
DEFAULTS = {
    "owner": {"READ", "WRITE", "DELETE", "PURGE", "ADMINISTER", "AUDIT"},
    "steward": {"READ", "WRITE", "DELETE"},
    "editor": {"READ", "WRITE"},
    "viewer": {"READ"},
    "scraper": {"READ", "WRITE", "DELETE"},
    "auditor": {"AUDIT"},
    "connector": {"WRITE"},
}


def allows(rules: Rules, who: Principal, action: Action, asset: Resource, known: Circumstances) -> bool:
    """Whether `who` may do this to an asset."""
    if who.tenant_id != asset.tenant_id:
        return False
    if who.scopes is not None and action.value.lower() not in who.scopes:
        return False
    if action is Action.PURGE and not allows(rules, who, Action.DELETE, asset, known):
        return False
    roles = _roles(rules, who)
    if "scraper" in roles and asset.asset_type in LEAVES and not _is_scrapable(rules, who, asset):
        return False
    allowed = any(action.value in DEFAULTS.get(role, ()) for role in roles)
    for policy in _matching(rules.policies, who, roles, action, asset):
        holds = policy.conditions.hold(known)
        if policy.effect is Effect.FORBID and holds is not False:
            return False
        allowed = allowed or (policy.effect is Effect.ALLOW and holds is True)
    return allowed


def may_read_kind(rules: Rules, who: Principal, *roles: str) -> bool:
    """Whether `who` may read things that only these roles may, and that no policy is about."""
    return (who.scopes is None or "read" in who.scopes) and not _roles(rules, who).isdisjoint(roles)


def _roles(rules: Rules, who: Principal) -> set[str]:
    roles = set(who.roles)
    for role in rules.roles:
        if who.subject in role.users or who.groups & role.groups:
            roles.add(role.name)
    while True:
        more = {name for role in rules.roles if role.name in roles for name in role.includes} - roles
        if not more:
            return roles
        roles |= more


def _is_scrapable(rules: Rules, who: Principal, asset: Resource) -> bool:
    columns = {
        column
        for policy in rules.scraper_policies
        if policy.scraper_group in who.groups
        for column in policy.allowed_columns
    }
    return bool(columns & (asset.containers | {asset.id}))


def _matching(
    policies: Iterable[Policy], who: Principal, roles: set[str], action: Action, asset: Resource
) -> Iterable[Policy]:
    mine = {Grantee(GranteeKind.USER, who.subject)}
    mine |= {Grantee(GranteeKind.ROLE, role) for role in roles}
    mine |= {Grantee(GranteeKind.GROUP, group) for group in who.groups}
    for policy in policies:
        if policy.grantee in mine and policy.access_type.value == action.value and _covers(policy, asset):
            yield policy


def _covers(policy: Policy, asset: Resource) -> bool:
    value = policy.scope.value
    match policy.scope.kind:
        case ScopeKind.ALL:
            return True
        case ScopeKind.ASSET:
            return value == asset.id
        case ScopeKind.CONTAINED:
            return value == asset.id or value in asset.containers
        case ScopeKind.TAG:
            return value in asset.tags
        case ScopeKind.TYPE:
            return value == asset.asset_type
        case ScopeKind.SOURCE:
            return value == asset.data_source
