"""All rules of a tenant, indexed: finds the few policies that can apply to a principal, and remembers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import cedarpy

from lily.access import cedar
from lily.access.principals import Principal
from lily.access.roles import SCRAPER, with_included
from lily.access.slices import Slice
from lily.domain.policies import Effect, Grantee, GranteeKind, Policy, Rules

#: How many distinct sets of policies stay parsed, and how many classes of principals stay known.
_MOST_SETS = 20_000
_MOST_SLICES = 5_000


class Book:
    """The rules at one version; immutable but for what it remembers."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.by_id = {policy.policy_id: policy for policy in rules.policies}
        self._by_grantee: dict[Grantee, list[Policy]] = defaultdict(list)
        for policy in rules.policies:
            self._by_grantee[policy.grantee].append(policy)
        self._columns = {each.scraper_group: each.allowed_columns for each in rules.scraper_policies}
        self._index_roles()
        self.conditions = _number_conditions(rules.policies)
        self._compiled: dict[str, dict[str, Any]] = cedar.compile_defaults()
        self._sets: dict[tuple[str, ...], cedarpy.PolicySet] = {}
        self._slices: dict[tuple[cedar.PrincipalView, bool], Slice] = {}
        self._known: dict[tuple[object, ...], Slice] = {}

    def slice_of(self, principal: Principal) -> Slice:
        """What can apply to a principal; the same slice for all whom policies cannot tell apart."""
        key: tuple[object, ...] = (principal.person, principal.roles, principal.groups)
        if principal.owner:
            key = (*key, principal.owner_roles, principal.owner_groups)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_SLICES:
                self._known.clear()
                self._slices.clear()
            view, is_key = self.view_of(principal), bool(principal.owner)
            found = self._slices.get((view, is_key))
            if found is None:
                policies = self._policies_about(view)
                if is_key:  # of whom it belongs to, a key has only what is forbidden
                    policies = [policy for policy in policies if _binds_a_key(policy)]
                found = self._slices[view, is_key] = Slice(self, view, policies)
            self._known[key] = found
        return found

    def view_of(self, principal: Principal) -> cedar.PrincipalView:
        roles = self.roles_of(principal)
        user = Grantee(GranteeKind.USER, principal.person)
        columns = (
            [self._columns.get(group, frozenset()) for group in principal.groups] if SCRAPER in roles else []
        )
        return cedar.PrincipalView(
            user=principal.person if user in self._by_grantee else "",
            roles=frozenset(role for role in roles if role in self._meaningful_roles),
            groups=frozenset(
                name for name in principal.groups if Grantee(GranteeKind.GROUP, name) in self._by_grantee
            ),
            columns=frozenset().union(*columns),
            bound_by=self._bound_by(principal) if principal.owner else frozenset(),
        )

    def _bound_by(self, key: Principal) -> frozenset[Grantee]:
        """The roles and groups of whom an API key belongs to, as far as policies name them."""
        roles = set(key.owner_roles) | self._roles_of_user.get(key.owner, set())
        for group in key.owner_groups:
            roles |= self._roles_of_group.get(group, set())
        found = {Grantee(GranteeKind.ROLE, role) for role in with_included(roles, self._includes)}
        found |= {Grantee(GranteeKind.GROUP, group) for group in key.owner_groups}
        return frozenset(found & self._by_grantee.keys())

    def roles_of(self, principal: Principal) -> frozenset[str]:
        """The roles of the credential, those of the user and of its groups, and all they include.

        An API key has the roles it was made with and no other.
        """
        if principal.owner:
            return with_included(set(principal.roles), self._includes)
        own = set(principal.roles) | self._roles_of_user.get(principal.subject, set())
        for group in principal.groups:
            own |= self._roles_of_group.get(group, set())
        return with_included(own, self._includes)

    def parsed(self, policy_ids: tuple[str, ...]) -> cedarpy.PolicySet:
        """These policies, ready for Cedar."""
        found = self._sets.get(policy_ids)
        if found is None:
            if len(self._sets) >= _MOST_SETS:
                self._sets.clear()
            compiled = {policy_id: self._compile(policy_id) for policy_id in policy_ids}
            found = self._sets[policy_ids] = cedar.policy_set(compiled)
        return found

    def _compile(self, policy_id: str) -> dict[str, Any]:
        found = self._compiled.get(policy_id)
        if found is None:
            found = cedar.compile_policy(self.by_id[policy_id], self.conditions.get(policy_id))
            self._compiled[policy_id] = found
        return found

    def _policies_about(self, view: cedar.PrincipalView) -> list[Policy]:
        grantees = [Grantee(GranteeKind.ROLE, role) for role in view.roles]
        grantees += [Grantee(GranteeKind.GROUP, group) for group in view.groups]
        if view.user:
            grantees.append(Grantee(GranteeKind.USER, view.user))
        found = [policy for grantee in grantees for policy in self._by_grantee.get(grantee, ())]
        further = [
            policy for grantee in view.bound_by - set(grantees) for policy in self._by_grantee[grantee]
        ]
        return found + [policy for policy in further if policy.effect is Effect.FORBID]

    def _index_roles(self) -> None:
        self._includes = {role.name: role.includes for role in self.rules.roles}
        self._roles_of_user: dict[str, set[str]] = defaultdict(set)
        self._roles_of_group: dict[str, set[str]] = defaultdict(set)
        for role in self.rules.roles:
            for user in role.users:
                self._roles_of_user[user].add(role.name)
            for group in role.groups:
                self._roles_of_group[group].add(role.name)
        granted = {grantee.name for grantee in self._by_grantee if grantee.kind is GranteeKind.ROLE}
        self._meaningful_roles = granted | cedar.DEFAULT_ROLE_NAMES


def _number_conditions(policies: Iterable[Policy]) -> dict[str, str]:
    """For every policy with conditions the name of its condition; equal ones of equal effect share it."""
    names: dict[tuple[Effect, Any], str] = {}
    numbered = {}
    for policy in policies:
        if policy.conditions.limit:
            key = (policy.effect, policy.conditions)
            numbered[policy.policy_id] = names.setdefault(key, f"{policy.effect}:{len(names)}")
    return numbered


def _binds_a_key(policy: Policy) -> bool:
    return policy.grantee.kind is GranteeKind.ROLE or policy.effect is Effect.FORBID
