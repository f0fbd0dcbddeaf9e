"""Random rules, principals, assets and circumstances, few enough names that they meet."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from lily.access.decisions import Resource
from lily.access.principals import Principal
from lily.domain.conditions import Circumstances, read_conditions
from lily.domain.policies import (
    AccessType,
    Effect,
    Grantee,
    GranteeKind,
    Policy,
    Role,
    Rules,
    Scope,
    ScopeKind,
    ScraperPolicy,
)

TENANTS = ("acme", "globex")
USERS = ("ada", "bob", "Ada")
ROLES = ("owner", "steward", "editor", "viewer", "scraper", "auditor", "analyst", "lead", 'x"::y')
GROUPS = ("sales", "it", "sales'; --")
TAGS = ("pii", "gold", 'a"b')
TYPES = ("table", "column", "schema")
SOURCES = ("snow", "pg")
ASSETS = ("sales", "sales.orders", "sales.orders.id", "hr", "hr.people", "hr.people.name", "loose", "o'brien")
#: What each asset is contained in directly.
PARENTS = {
    "sales.orders": ("sales",),
    "sales.orders.id": ("sales.orders",),
    "hr.people": ("hr",),
    "hr.people.name": ("hr.people",),
    "loose": ("hr", "sales.orders"),
}
CONDITIONS = (
    {},
    {},
    {"network": {"in": ["10.0.0.0/8"]}},
    {"network": {"in": ["127.0.0.0/8", "::1/128"]}},
    {"time": [{"not_before": "2020-01-01T00:00:00Z", "not_after": "2021-01-01T00:00:00Z"}]},
    {"time": [{"not_before": "2020-01-01T00:00:00Z"}]},
    {"network": {"not_in": ["10.0.0.0/8", "fd00::/8"]}},
    {"purpose": ["support"]},
    {"time": [{"zone": "Europe/Berlin", "from": "08:00", "until": "18:00", "days": ["mon", "tue"]}]},
    {"time": [{"from": "22:00", "until": "06:00"}], "purpose": ["support", "audit"]},
)
#: The JSON of each of them.
WRITTEN = {read_conditions(document): document for document in CONDITIONS}
#: A Monday.
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def containers_of(asset_id: str) -> frozenset[str]:
    found: set[str] = set()
    for parent in PARENTS.get(asset_id, ()):
        found |= {parent} | containers_of(parent)
    return frozenset(found)


def subsets(names: tuple[str, ...], most: int = 2) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(names), max_size=most)


grantees = st.one_of(
    st.builds(Grantee, st.just(GranteeKind.USER), st.sampled_from(USERS)),
    st.builds(Grantee, st.just(GranteeKind.ROLE), st.sampled_from(ROLES)),
    st.builds(Grantee, st.just(GranteeKind.GROUP), st.sampled_from(GROUPS)),
)
scopes = st.one_of(
    st.just(Scope(ScopeKind.ALL)),
    st.builds(Scope, st.just(ScopeKind.ASSET), st.sampled_from(ASSETS)),
    st.builds(Scope, st.just(ScopeKind.CONTAINED), st.sampled_from(ASSETS)),
    st.builds(Scope, st.just(ScopeKind.TAG), st.sampled_from(TAGS)),
    st.builds(Scope, st.just(ScopeKind.TYPE), st.sampled_from(TYPES)),
    st.builds(Scope, st.just(ScopeKind.SOURCE), st.sampled_from(SOURCES)),
)
policies = st.builds(
    Policy,
    policy_id=st.uuids().map(str),
    grantee=grantees,
    access_type=st.sampled_from(AccessType),
    effect=st.sampled_from((Effect.ALLOW, Effect.ALLOW, Effect.FORBID)),
    scope=scopes,
    conditions=st.sampled_from(CONDITIONS).map(read_conditions),
)
roles = st.builds(
    Role,
    name=st.sampled_from(("analyst", "lead", "viewer")),
    includes=subsets(ROLES),
    users=subsets(USERS),
    groups=subsets(GROUPS),
)
scraper_policies = st.builds(
    ScraperPolicy, scraper_group=st.sampled_from(GROUPS), allowed_columns=subsets(ASSETS, 3)
)
rules = st.builds(
    Rules,
    policies=st.lists(policies, max_size=12, unique_by=lambda policy: policy.policy_id).map(tuple),
    roles=st.lists(roles, max_size=3, unique_by=lambda role: role.name).map(tuple),
    scraper_policies=st.lists(scraper_policies, max_size=2, unique_by=lambda p: p.scraper_group).map(tuple),
)
principals = st.builds(
    Principal,
    tenant_id=st.sampled_from(TENANTS),
    subject=st.sampled_from(USERS),
    roles=subsets(ROLES),
    groups=subsets(GROUPS),
    scopes=st.sampled_from((None, None, None, frozenset({"read"}), frozenset({"write", "delete"}))),
)
circumstances = st.builds(
    Circumstances,
    at=st.sampled_from((NOON, NOON.replace(hour=23), NOON.replace(day=10))),
    address=st.sampled_from(("", "10.1.2.3", "192.168.0.1", "::ffff:10.0.0.1", "nonsense")),
    purpose=st.sampled_from(("", "support", "fun")),
)


@st.composite
def resources(draw: st.DrawFn) -> Resource:
    asset_id = draw(st.sampled_from(ASSETS))
    return Resource(
        draw(st.sampled_from(TENANTS)),
        id=asset_id,
        asset_type=draw(st.sampled_from(TYPES)),
        data_source=draw(st.sampled_from((*SOURCES, ""))),
        tags=draw(subsets(TAGS)),
        containers=containers_of(asset_id),
    )
