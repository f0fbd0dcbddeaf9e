"""The roles every tenant has, and what each may do unless a policy forbids it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lily.access.decisions import ASSET, Action

#: As which a connector reports incidents; a policy can forbid it, or one connector by its name.
CONNECTOR = "connector"
_EVERY_ACTION = frozenset(Action)
_ADMINISTRATION = (
    "policy",
    "protection_rule",
    "role",
    "scraper_policy",
    "user",
    "tenant",
    "connector",
    "audit",
)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a default role may do; `kind` None means things of every kind."""

    role: str
    actions: frozenset[Action]
    kind: str | None = ASSET

    @property
    def policy_id(self) -> str:
        return f"default:{self.role}:{self.kind or 'everything'}"


def _grants() -> tuple[Grant, ...]:
    read, write, delete = Action.READ, Action.WRITE, Action.DELETE
    return (
        Grant("owner", _EVERY_ACTION, None),
        Grant("steward", frozenset({read, write, delete})),
        Grant("steward", frozenset({read, Action.ADMINISTER}), "policy"),
        Grant("steward", frozenset({read, Action.ADMINISTER}), "protection_rule"),
        Grant("steward", frozenset({read, write}), "tag"),
        Grant("steward", frozenset({read, write}), "incident"),
        Grant("steward", frozenset({read}), "role"),
        Grant("steward", frozenset({read}), "scraper_policy"),
        Grant("steward", frozenset({write}), "subscription"),
        Grant("editor", frozenset({read, write})),
        Grant("editor", frozenset({write}), "subscription"),
        Grant("viewer", frozenset({read})),
        Grant("scraper", frozenset({read, write, delete})),
        Grant(CONNECTOR, frozenset({write})),
        Grant("engine", frozenset({read}), "protection"),
        Grant("auditor", frozenset({Action.AUDIT}), None),
        *(Grant("auditor", frozenset({read}), kind) for kind in _ADMINISTRATION),
    )


DEFAULT_GRANTS = _grants()
DEFAULT_ROLES = tuple(dict.fromkeys(grant.role for grant in DEFAULT_GRANTS))
#: Whoever has this role touches only the columns its groups' scraper policies name.
SCRAPER = "scraper"
COLUMNS_ONLY = "default:scraper:columns"


def with_included(roles: Iterable[str], includes: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The roles and all they include, at any depth; a cycle is no harm."""
    found: set[str] = set()
    pending = list(roles)
    while pending:
        role = pending.pop()
        if role not in found:
            found.add(role)
            pending.extend(includes.get(role, ()))
    return frozenset(found)
