"""Protection rules: which columns of which tags are masked or denied, and to whom.

What applies to a column depends on its tags, where it is and its data type; to whom, on roles and groups. Of
all rules that apply the strictest wins, and of two equally strict ones always the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from lily.domain.masks import NULL, Family, Mask, family_of
from lily.domain.policies import Scope, ScopeKind

EVERYWHERE = Scope(ScopeKind.ALL)


class Effect(StrEnum):
    MASK = "mask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Rule:
    """Columns with this tag in this scope are masked or denied, except for these roles and groups."""

    rule_id: str
    tag: str
    scope: Scope = EVERYWHERE
    #: Whether the tag of a table, schema or database also protects the columns in it.
    includes_contained: bool = False
    effect: Effect = Effect.MASK
    mask: Mask = NULL
    #: Masks for some families of data types, instead of `mask`.
    masks_by_type: Mapping[Family, Mask] = field(default_factory=dict)
    except_roles: frozenset[str] = frozenset()
    except_groups: frozenset[str] = frozenset()

    def mask_for(self, data_type: str) -> Mask:
        return self.masks_by_type.get(family_of(data_type), self.mask).fitted(data_type)


@dataclass(frozen=True, slots=True)
class Column:
    """What protection can depend on; `containers` and `tags_above` are of everything it is contained in."""

    asset_id: str
    data_source: str = ""
    external_id: str = ""
    name: str = ""
    data_type: str = ""
    tags: frozenset[str] = frozenset()
    containers: frozenset[str] = frozenset()
    tags_above: frozenset[str] = frozenset()
    #: What else enforcement knows it by: the connector it was scraped with.
    connector_id: str = ""


@dataclass(frozen=True, slots=True)
class Protection:
    """What one rule does to one column: deny it, or show it through a mask that fits its type."""

    rule_id: str
    effect: Effect
    mask: Mask
    except_roles: frozenset[str] = frozenset()
    except_groups: frozenset[str] = frozenset()

    @property
    def strictness(self) -> tuple[bool, tuple[int, int, int, str], str]:
        """The least is the strictest; the rule's id makes the order total."""
        return self.effect is not Effect.DENY, self.mask.strictness, self.rule_id

    def spares(self, roles: Collection[str], groups: Collection[str]) -> bool:
        """Whether somebody with these roles and groups sees the column as if the rule were not there."""
        return not self.except_roles.isdisjoint(roles) or not self.except_groups.isdisjoint(groups)


def protections_of(column: Column, rules: Iterable[Rule]) -> tuple[Protection, ...]:
    """All that protects a column, the strictest first."""
    found = (_protection(column, rule) for rule in rules if applies(rule, column))
    return tuple(sorted(found, key=lambda each: each.strictness))


def protection_for(
    protections: Sequence[Protection], roles: Collection[str], groups: Collection[str]
) -> Protection | None:
    """What somebody with these roles and groups meets: the strictest that does not spare them, or nothing."""
    return next((each for each in protections if not each.spares(roles, groups)), None)


def applies(rule: Rule, column: Column) -> bool:
    """Whether a rule is about a column, whoever asks."""
    has_tag = rule.tag in column.tags or (rule.includes_contained and rule.tag in column.tags_above)
    return has_tag and _covers(rule.scope, column)


def _covers(scope: Scope, column: Column) -> bool:
    match scope.kind:
        case ScopeKind.ALL:
            return True
        case ScopeKind.SOURCE:
            return column.data_source == scope.value
        case ScopeKind.CONTAINED:
            return scope.value == column.asset_id or scope.value in column.containers
        case _:
            return column.asset_id == scope.value


def _protection(column: Column, rule: Rule) -> Protection:
    mask = NULL if rule.effect is Effect.DENY else rule.mask_for(column.data_type)
    return Protection(rule.rule_id, rule.effect, mask, rule.except_roles, rule.except_groups)
