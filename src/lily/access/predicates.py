"""The policies of a principal as one condition on assets, for lists: values for a fixed SQL text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lily.access.decisions import ASSET, Action
from lily.access.roles import COLUMNS_ONLY
from lily.access.slices import Slice
from lily.domain.assets import LEAF_TYPES
from lily.domain.conditions import Circumstances
from lily.domain.policies import Effect, Policy, ScopeKind

_NAMES = {
    ScopeKind.ASSET: "ids",
    ScopeKind.CONTAINED: "containers",
    ScopeKind.TAG: "tags",
    ScopeKind.TYPE: "types",
    ScopeKind.SOURCE: "sources",
}


@dataclass(frozen=True, slots=True)
class Reached:
    """Assets some policies are about: all of them, or those with one of these values."""

    everything: bool
    values: dict[ScopeKind, list[str]]


@dataclass(frozen=True, slots=True)
class Predicate:
    """Which assets a principal may do something to, at this moment; None of `columns` restricts nothing."""

    allowed: Reached
    forbidden: Reached
    columns: list[str] | None

    def parameters(self, prefix: str = "") -> dict[str, Any]:
        """The values of the query fragment `allowed` (queries/listing.sql)."""
        values: dict[str, Any] = {
            f"{prefix}columns_only": self.columns is not None,
            f"{prefix}columns": self.columns or [],
            f"{prefix}leaf_types": sorted(LEAF_TYPES),
        }
        for side, reached in (("allow", self.allowed), ("forbid", self.forbidden)):
            values[f"{prefix}{side}_all"] = reached.everything
            for kind, name in _NAMES.items():
                values[f"{prefix}{side}_{name}"] = reached.values[kind]
        return values


NOTHING = Predicate(
    Reached(False, {kind: [] for kind in _NAMES}), Reached(True, {kind: [] for kind in _NAMES}), None
)


def predicate_of(mine: Slice, action: Action, circumstances: Circumstances) -> Predicate:
    """The same policies that decide about single assets, as a condition."""
    return _predicate(mine, action, mine.holding(circumstances))


def predicate_if_conditions_hold(mine: Slice, action: Action) -> Predicate:
    """The same, as it is when the conditions of all policies hold."""
    return _predicate(mine, action, None)


def _predicate(mine: Slice, action: Action, holding: frozenset[str] | None) -> Predicate:
    reach = mine.reaches[action]
    by_default = set(reach.defaults.get(None, ())) | set(reach.defaults.get(ASSET, ()))

    def reached(effect: Effect, everything: bool) -> Reached:
        def counts(policy: Policy) -> bool:
            return policy.effect is effect and (holding is None or mine.applies(policy, holding))

        values = {kind: _values(reach.by_scope[kind], counts) for kind in _NAMES}
        return Reached(everything or bool(_values(reach.by_scope[ScopeKind.ALL], counts)), values)

    return Predicate(
        allowed=reached(Effect.ALLOW, bool(by_default - {COLUMNS_ONLY})),
        forbidden=reached(Effect.FORBID, False),
        columns=None if mine.columns is None else sorted(mine.columns),
    )


def _values(by_value: dict[str, list[Policy]], counts: Callable[[Policy], bool]) -> list[str]:
    return sorted(value for value, policies in by_value.items() if any(map(counts, policies)))
