"""Nothing is allowed unless a role allows it."""

from __future__ import annotations

import pytest

from lily.access.decisions import Action, authorise
from lily.access.principals import Principal
from lily.domain.errors import Forbidden

ALLOWED = {
    "owner": {Action.READ, Action.WRITE, Action.PURGE},
    "viewer": {Action.READ},
    "": set(),
    "Owner": set(),
    "admin": set(),
}


@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("role", ALLOWED)
def test_a_role_may_do_exactly_what_the_table_says(role: str, action: Action) -> None:
    principal = Principal("acme", "ada", frozenset({role}))
    if action in ALLOWED[role]:
        authorise(principal, action)
    else:
        with pytest.raises(Forbidden):
            authorise(principal, action)
