"""The scopes a credential may be narrowed to, and the actions each is good for."""

from __future__ import annotations

from collections.abc import Iterable

from lily.domain.errors import InvalidInput

PROVISION = "provision"

#: The actions, in lower case, as they stand in `Principal.scopes`.
SCOPES: dict[str, frozenset[str]] = {
    "lily:read": frozenset({"read"}),
    "lily:write": frozenset({"write", "delete"}),
    "lily:admin": frozenset({"purge", "administer", "audit", PROVISION}),
    "lily:scim": frozenset({PROVISION}),
}


def check_scopes(scopes: Iterable[str]) -> list[str]:
    """The scopes, sorted; `InvalidInput` when one is unknown."""
    wanted = sorted(set(scopes))
    unknown = [scope for scope in wanted if scope not in SCOPES]
    if unknown:
        raise InvalidInput(f"unknown scope {unknown[0]!r}; known: {', '.join(SCOPES)}")
    return wanted


def actions_of(scopes: Iterable[str] | None) -> frozenset[str] | None:
    """What these scopes are good for together; None does not narrow."""
    if scopes is None:
        return None
    return frozenset(action for scope in scopes for action in SCOPES.get(scope, ()))
