"""What a principal may do: nothing, unless their role allows it here."""

from __future__ import annotations

from enum import StrEnum

from lily.access.principals import Principal
from lily.domain.errors import Forbidden


class Action(StrEnum):
    READ = "read"
    WRITE = "write"
    PURGE = "purge"


ROLES: dict[str, frozenset[Action]] = {
    "owner": frozenset(Action),
    "viewer": frozenset({Action.READ}),
}


def authorise(principal: Principal, action: Action) -> None:
    """Return when the principal may do this; raise `Forbidden` otherwise."""
    if any(action in ROLES.get(role, frozenset()) for role in principal.roles):
        return
    able = sorted(role for role, actions in ROLES.items() if action in actions)
    raise Forbidden(
        f"{_named(principal.roles)} may not {action.value}; roles that may: {', '.join(able)}",
        action=action.value,
    )


def _named(roles: frozenset[str]) -> str:
    return f"the role {', '.join(map(repr, sorted(roles)))}" if roles else "a caller without a role"
