"""What a change of the rules would do, before it is made: who gains and who loses access to which assets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lily.access.books import Book
from lily.access.cedar import PrincipalView
from lily.access.decisions import Action
from lily.access.people import GroupRoles, Known, with_group_roles
from lily.access.predicates import predicate_if_conditions_hold
from lily.access.principals import Principal
from lily.access.roles import DEFAULT_ROLES, SCRAPER
from lily.access.slices import Slice
from lily.domain.policies import AccessType, GranteeKind, Policy, Role, Rules, ScraperPolicy
from lily.repositories.postgres.asset_lists import AssetLists, Difference

EXAMPLES = 10
#: The kind under which the scrapers of a group are told.
SCRAPERS = "scrapers"


@dataclass(frozen=True, slots=True)
class Change:
    """What is put, instead of what has the same id or name; None, and the ids `removed`, remove."""

    put: tuple[Policy, ...] = ()
    removed: frozenset[str] = frozenset()
    roles: Mapping[str, Role | None] = field(default_factory=dict)
    scraper_policies: Mapping[str, ScraperPolicy | None] = field(default_factory=dict)
    #: The roles each group gives its members.
    group_roles: GroupRoles = field(default_factory=dict)


class Affected(NamedTuple):
    """A user, role or group; or the scrapers of a group."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Effect:
    """What the change means to some whom it treats alike; conditions are taken to hold."""

    principals: tuple[Affected, ...]
    access_type: AccessType
    difference: Difference


def changed(rules: Rules, change: Change) -> Rules:
    """The rules after the change."""
    gone = change.removed | {policy.policy_id for policy in change.put}
    kept = [policy for policy in rules.policies if policy.policy_id not in gone]
    roles = {role.name: role for role in rules.roles} | dict(change.roles)
    columns = {each.scraper_group: each for each in rules.scraper_policies} | dict(change.scraper_policies)
    return Rules(
        policies=(*kept, *change.put),
        roles=tuple(role for role in roles.values() if role is not None),
        scraper_policies=tuple(each for each in columns.values() if each is not None),
    )


async def plan(tenant_id: str, rules: Rules, change: Change, lists: AssetLists, known: Known) -> list[Effect]:
    """Who gains and loses what: everybody known, and every role, group and user that the rules name."""
    before, after = Book(rules), Book(changed(rules, change))
    given = known.group_roles, {**known.group_roles, **change.group_roles}
    alike: dict[tuple[PrincipalView, PrincipalView], list[Affected]] = defaultdict(list)
    example: dict[tuple[PrincipalView, PrincipalView], tuple[Slice, Slice]] = {}
    named = _named(tenant_id, (before.rules, after.rules), change) | {
        Affected(GranteeKind.USER, person.subject): person for person in known.people
    }
    for affected, principal in named.items():
        was, will_be = (with_group_roles(principal, roles) for roles in given)
        views = before.view_of(was), after.view_of(will_be)
        alike[views].append(affected)
        example[views] = before.slice_of(was), after.slice_of(will_be)
    effects = []
    for views, slices in example.items():
        for access_type in AccessType:
            difference = await _compare(tenant_id, slices, access_type, lists)
            if difference and (difference.gained or difference.lost):
                effects.append(Effect(tuple(alike[views]), access_type, difference))
    return effects


async def _compare(
    tenant_id: str, slices: tuple[Slice, Slice], access_type: AccessType, lists: AssetLists
) -> Difference | None:
    action = Action(access_type.value)
    was, will_be = (predicate_if_conditions_hold(each, action) for each in slices)
    if was == will_be:
        return None
    return await lists.compare(tenant_id, was.parameters("before_"), will_be.parameters("after_"), EXAMPLES)


def _named(tenant_id: str, both: Iterable[Rules], change: Change) -> dict[Affected, Principal]:
    """Somebody who is nothing but it, for everything the rules name."""
    kinds = GranteeKind
    found = {Affected(kinds.ROLE, role) for role in DEFAULT_ROLES}
    found |= {Affected(kinds.GROUP, group) for group in change.group_roles}
    for rules in both:
        found |= {Affected(policy.grantee.kind, policy.grantee.name) for policy in rules.policies}
        found |= {Affected(SCRAPERS, each.scraper_group) for each in rules.scraper_policies}
        for role in rules.roles:
            found |= {Affected(kinds.ROLE, name) for name in (role.name, *role.includes)}
            found |= {Affected(kinds.USER, name) for name in role.users}
            found |= {Affected(kinds.GROUP, name) for name in role.groups}
    return {each: _principal(tenant_id, each) for each in sorted(found)}


def _principal(tenant_id: str, affected: Affected) -> Principal:
    one, nobody = frozenset({affected.name}), frozenset[str]()
    match affected.kind:
        case GranteeKind.USER:
            return Principal(tenant_id, affected.name, nobody)
        case GranteeKind.ROLE:
            return Principal(tenant_id, "", one)
        case kind:
            return Principal(tenant_id, "", frozenset({SCRAPER}) if kind == SCRAPERS else nobody, one)
