"""Policies, roles and scraper policies: who may do what to which assets, as they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lily.domain.conditions import UNCONDITIONAL, Conditions


class Effect(StrEnum):
    ALLOW = "allow"
    FORBID = "forbid"


class AccessType(StrEnum):
    READ = "READ"
    WRITE = "WRITE"
    DELETE = "DELETE"


class ScopeKind(StrEnum):
    """Which assets a policy is about."""

    ASSET = "asset"
    CONTAINED = "contained"  # the asset named and everything contained in it, at any depth
    TAG = "tag"
    TYPE = "type"
    SOURCE = "source"
    ALL = "all"


class GranteeKind(StrEnum):
    """Whom a policy is about."""

    USER = "user"
    ROLE = "role"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Scope:
    kind: ScopeKind
    value: str = ""


@dataclass(frozen=True, slots=True)
class Grantee:
    kind: GranteeKind
    name: str


@dataclass(frozen=True, slots=True)
class Policy:
    """One rule; a forbidding one wins over every allowing one, and what no policy allows is denied."""

    policy_id: str
    grantee: Grantee
    access_type: AccessType
    effect: Effect
    scope: Scope
    conditions: Conditions = UNCONDITIONAL


@dataclass(frozen=True, slots=True)
class Role:
    """A name for members; they also have every role it includes."""

    name: str
    includes: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ScraperPolicy:
    """The columns the scrapers of a group may touch: named themselves, or by an asset that contains them."""

    scraper_group: str
    allowed_columns: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that decides about access in one tenant."""

    policies: tuple[Policy, ...] = ()
    roles: tuple[Role, ...] = ()
    scraper_policies: tuple[ScraperPolicy, ...] = ()
