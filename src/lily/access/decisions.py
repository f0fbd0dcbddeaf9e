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
    if action in ROLES.get(principal.role, frozenset()):
        return
    able = sorted(role for role, actions in ROLES.items() if action in actions)
    raise Forbidden(
        f"the role {principal.role!r} may not {action.value}; roles that may: {', '.join(able)}",
        action=action.value,
    )
