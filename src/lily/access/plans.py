"""What a change of the rules would do, before it is made: who gains and who loses access to which assets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from lily.access.books import Book
from lily.access.cedar import PrincipalView
from lily.access.decisions import Action
from lily.access.predicates import predicate_if_conditions_hold
from lily.access.principals import Principal
from lily.access.roles import DEFAULT_ROLES
from lily.domain.policies import AccessType, Grantee, GranteeKind, Policy, Role, Rules
from lily.repositories.postgres.asset_lists import AssetLists, Difference

EXAMPLES = 10


@dataclass(frozen=True, slots=True)
class Change:
    """Policies to put, instead of those with their ids, and to remove; roles to put, None to remove."""

    put: tuple[Policy, ...] = ()
    removed: frozenset[str] = frozenset()
    roles: Mapping[str, Role | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Effect:
    """What the change means to some principals whom it treats alike; conditions are taken to hold."""

    principals: tuple[Grantee, ...]
    access_type: AccessType
    difference: Difference


def changed(rules: Rules, change: Change) -> Rules:
    """The rules after the change."""
    gone = change.removed | {policy.policy_id for policy in change.put}
    kept = [policy for policy in rules.policies if policy.policy_id not in gone]
    roles = {role.name: role for role in rules.roles} | dict(change.roles)
    return replace(
        rules,
        policies=(*kept, *change.put),
        roles=tuple(role for role in roles.values() if role is not None),
    )


async def plan(
    tenant_id: str, rules: Rules, change: Change, lists: AssetLists, people: Iterable[Principal] = ()
) -> list[Effect]:
    """Who gains and loses what: every role, group and user that the rules name, and the people given."""
    before, after = Book(rules), Book(changed(rules, change))
    alike: dict[tuple[PrincipalView, PrincipalView], list[Grantee]] = defaultdict(list)
    example: dict[tuple[PrincipalView, PrincipalView], Principal] = {}
    for grantee, principal in _principals(tenant_id, (before.rules, after.rules), people).items():
        views = (before.view_of(principal), after.view_of(principal))
        alike[views].append(grantee)
        example[views] = principal
    effects = []
    for views, principal in example.items():
        for access_type in AccessType:
            difference = await _compare(tenant_id, (before, after), principal, access_type, lists)
            if difference and (difference.gained or difference.lost):
                effects.append(Effect(tuple(alike[views]), access_type, difference))
    return effects


async def _compare(
    tenant_id: str, books: tuple[Book, Book], principal: Principal, access_type: AccessType, lists: AssetLists
) -> Difference | None:
    action = Action(access_type.value)
    was, will_be = (predicate_if_conditions_hold(book.slice_of(principal), action) for book in books)
    if was == will_be:
        return None
    return await lists.compare(tenant_id, was.parameters("before_"), will_be.parameters("after_"), EXAMPLES)


def _principals(
    tenant_id: str, both: Iterable[Rules], people: Iterable[Principal]
) -> dict[Grantee, Principal]:
    named = {Grantee(GranteeKind.ROLE, role) for role in DEFAULT_ROLES}
    for rules in both:
        named |= {policy.grantee for policy in rules.policies}
        for role in rules.roles:
            named |= {Grantee(GranteeKind.ROLE, name) for name in (role.name, *role.includes)}
            named |= {Grantee(GranteeKind.USER, name) for name in role.users}
            named |= {Grantee(GranteeKind.GROUP, name) for name in role.groups}
    found = {
        grantee: _principal(tenant_id, grantee) for grantee in sorted(named, key=lambda g: (g.kind, g.name))
    }
    return found | {Grantee(GranteeKind.USER, person.subject): person for person in people}


def _principal(tenant_id: str, grantee: Grantee) -> Principal:
    """Somebody who is nothing but this."""
    one, nobody = frozenset({grantee.name}), frozenset[str]()
    if grantee.kind is GranteeKind.USER:
        return Principal(tenant_id, grantee.name, nobody)
    if grantee.kind is GranteeKind.ROLE:
        return Principal(tenant_id, "", one)
    return Principal(tenant_id, "", nobody, one)
