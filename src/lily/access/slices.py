"""The policies that can apply to one class of principals, and the decisions already made about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lily.access import cedar
from lily.access.decisions import ASSET, NO_POLICY_ALLOWS, Action, Decision, Resource
from lily.access.roles import COLUMNS_ONLY, DEFAULT_GRANTS, SCRAPER
from lily.domain.assets import LEAF_TYPES
from lily.domain.conditions import Circumstances, Conditions
from lily.domain.policies import Effect, Policy, ScopeKind

if TYPE_CHECKING:
    from lily.access.books import Book

_MOST_DECISIONS = 100_000
_NOTHING: frozenset[str] = frozenset()
_Key = tuple[str, str, str, str, frozenset[str], frozenset[str], frozenset[str]]


class Reach:
    """The policies of one slice about one action, by what they reach."""

    def __init__(self) -> None:
        self.by_scope: dict[ScopeKind, dict[str, list[Policy]]] = {
            kind: defaultdict(list) for kind in ScopeKind
        }
        self.decisions: dict[_Key, Decision] = {}
        self.defaults: dict[str | None, list[str]] = defaultdict(list)

    def seal(self, columns: frozenset[str] | None) -> None:
        """Fix what can be seen; `columns` are those a scraper may touch, None for everybody else."""
        seen = self.by_scope
        self.ids = (
            frozenset(seen[ScopeKind.ASSET]) | frozenset(seen[ScopeKind.CONTAINED]) | (columns or _NOTHING)
        )
        self.containers = frozenset(seen[ScopeKind.CONTAINED]) | (columns or _NOTHING)
        self.tags = frozenset(seen[ScopeKind.TAG])
        self.types = frozenset(seen[ScopeKind.TYPE]) | (_NOTHING if columns is None else LEAF_TYPES)
        self.sources = frozenset(seen[ScopeKind.SOURCE])
        allowing = [
            p for by in seen.values() for found in by.values() for p in found if p.effect is Effect.ALLOW
        ]
        #: Whether there can be an asset for which the answer is yes.
        self.can_allow = bool(
            allowing or self.defaults.get(None) or set(self.defaults.get(ASSET, ())) - {COLUMNS_ONLY}
        )
        #: Whether everything of a kind is decided alike.
        self.is_uniform = not (self.ids or self.containers or self.tags or self.types or self.sources)


class Slice:
    def __init__(self, book: Book, principal: cedar.PrincipalView, policies: Iterable[Policy]) -> None:
        self.principal = principal
        self.policies = tuple(policies)
        self._book = book
        self._columns = principal.columns if SCRAPER in principal.roles else None
        self._conditional: dict[str, tuple[Effect, Conditions]] = {}
        self._holding: tuple[tuple[int, str, str], frozenset[str]] = ((0, "", ""), _NOTHING)
        self.reaches = {action: Reach() for action in Action}
        self._add_policies()
        self._add_defaults()
        for reach in self.reaches.values():
            reach.seal(self._columns)

    def decide(self, action: Action, resource: Resource, circumstances: Circumstances) -> Decision:
        """Remembered by what policies can see of the resource and by which conditions hold; else Cedar's."""
        reach = self.reaches[action]
        asset_id, containers, tags = resource.id, resource.containers, resource.tags
        key = (
            resource.kind,
            asset_id if asset_id in reach.ids else "",
            resource.asset_type if resource.asset_type in reach.types else "",
            resource.data_source if resource.data_source in reach.sources else "",
            tags & reach.tags if tags else _NOTHING,
            containers & reach.containers if containers else _NOTHING,
            self.holding(circumstances) if self._conditional else _NOTHING,
        )
        found = reach.decisions.get(key)
        if found is None:
            if len(reach.decisions) >= _MOST_DECISIONS:
                reach.decisions.clear()
            found = reach.decisions[key] = self._ask(action, reach, key)
        return found

    def holding(self, circumstances: Circumstances) -> frozenset[str]:
        """The conditions that hold; what is not known never helps: it leaves a forbidding policy in force."""
        key = (int(circumstances.at.timestamp()), circumstances.address, circumstances.purpose)
        if self._holding[0] != key:
            holding = frozenset(
                name
                for name, (effect, conditions) in self._conditional.items()
                if _applies(effect, conditions.hold(circumstances))
            )
            self._holding = (key, holding)
        return self._holding[1]

    def applies(self, policy: Policy, holding: frozenset[str]) -> bool:
        name = self._book.conditions.get(policy.policy_id)
        return name is None or name in holding

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns a scraper may touch; None for everybody else."""
        return self._columns

    def _ask(self, action: Action, reach: Reach, key: _Key) -> Decision:
        kind, asset_id, asset_type, data_source, tags, containers, holding = key
        view = cedar.ResourceView(kind, asset_id, asset_type, data_source, tags, containers)
        matching = _matching(reach, view)
        by_default = reach.defaults.get(None, []) + reach.defaults.get(kind, [])
        if not any(policy.effect is Effect.ALLOW for policy in matching) and by_default in (
            [],
            [COLUMNS_ONLY],
        ):
            return NO_POLICY_ALLOWS
        candidates = tuple(sorted(by_default + [policy.policy_id for policy in matching]))
        return cedar.ask(self._book.parsed(candidates), self.principal, action, view, holding)

    def _add_policies(self) -> None:
        for policy in self.policies:
            reach = self.reaches[Action(policy.access_type.value)]
            reach.by_scope[policy.scope.kind][policy.scope.value].append(policy)
            if name := self._book.conditions.get(policy.policy_id):
                self._conditional[name] = (policy.effect, policy.conditions)

    def _add_defaults(self) -> None:
        for grant in DEFAULT_GRANTS:
            if grant.role in self.principal.roles:
                for action in grant.actions:
                    self.reaches[action].defaults[grant.kind].append(grant.policy_id)
        if self._columns is not None:
            for reach in self.reaches.values():
                reach.defaults[ASSET].append(COLUMNS_ONLY)


def _matching(reach: Reach, view: cedar.ResourceView) -> list[Policy]:
    """The stored policies that can match what is seen; leaving out the others changes no decision."""
    if view.kind != ASSET:
        return []
    by_scope = reach.by_scope
    found = list(by_scope[ScopeKind.ALL].get("", ()))
    found += by_scope[ScopeKind.ASSET].get(view.id, ())
    found += by_scope[ScopeKind.TYPE].get(view.asset_type, ())
    found += by_scope[ScopeKind.SOURCE].get(view.data_source, ())
    for tag in view.tags:
        found += by_scope[ScopeKind.TAG].get(tag, ())
    for container in view.containers | {view.id}:
        found += by_scope[ScopeKind.CONTAINED].get(container, ())
    return found


def _applies(effect: Effect, holds: bool | None) -> bool:
    return holds is not False if effect is Effect.FORBID else holds is True
