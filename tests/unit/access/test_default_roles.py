"""Every tenant has these roles, and nobody may do what no role or policy allows."""

from __future__ import annotations

import pytest

from lily.access.books import Book
from lily.access.decision_points import Access, FixedBooks
from lily.access.decisions import Action, Resource
from lily.access.principals import Principal
from lily.domain.policies import Rules

ACCESS = Access(FixedBooks(Book(Rules())))
ON_ASSETS = {
    "owner": {Action.READ, Action.WRITE, Action.DELETE, Action.PURGE, Action.ADMINISTER, Action.AUDIT},
    "steward": {Action.READ, Action.WRITE, Action.DELETE},
    "editor": {Action.READ, Action.WRITE},
    "viewer": {Action.READ},
    "scraper": {Action.READ, Action.WRITE, Action.DELETE},
    "auditor": {Action.AUDIT},
    "connector": {Action.WRITE},
    "": set(),
    "Owner": set(),
    "admin": set(),
}
TABLE = Resource("acme", id="orders", asset_type="table")
COLUMN = Resource("acme", id="orders.id", asset_type="column")


def who(role: str, **more: frozenset[str]) -> Principal:
    return Principal("acme", "ada", frozenset({role}), **more)


@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("role", ON_ASSETS)
def test_a_role_may_do_to_assets_exactly_what_the_table_says(role: str, action: Action) -> None:
    assert ACCESS.decide(who(role), action, TABLE).allowed == (action in ON_ASSETS[role])


@pytest.mark.parametrize(
    ("role", "kind", "actions"),
    [
        ("owner", "tenant", set(Action)),
        ("steward", "policy", {Action.READ, Action.ADMINISTER}),
        ("steward", "role", {Action.READ}),
        ("steward", "user", set()),
        ("auditor", "audit", {Action.READ, Action.AUDIT}),
        ("editor", "policy", set()),
        ("viewer", "policy", set()),
        ("scraper", "connector", set()),
    ],
)
def test_a_role_administers_exactly_what_the_table_says(role: str, kind: str, actions: set[Action]) -> None:
    allowed = {
        action for action in Action if ACCESS.decide(who(role), action, Resource("acme", kind)).allowed
    }
    assert allowed == actions


@pytest.mark.parametrize("action", list(Action))
def test_nothing_of_another_tenant_is_allowed(action: Action) -> None:
    assert not ACCESS.decide(who("owner"), action, Resource("globex", id="orders")).allowed


def test_scopes_narrow_what_a_role_allows_and_never_widen_it() -> None:
    narrow = who("owner", scopes=frozenset({"read"}))
    assert ACCESS.decide(narrow, Action.READ, TABLE).allowed
    assert not ACCESS.decide(narrow, Action.WRITE, TABLE).allowed
    assert not ACCESS.decide(who("viewer", scopes=frozenset({"write"})), Action.WRITE, TABLE).allowed
    assert not ACCESS.decide(who("owner", scopes=frozenset()), Action.READ, TABLE).allowed


def test_a_scraper_without_a_policy_touches_no_column() -> None:
    assert ACCESS.decide(who("scraper"), Action.WRITE, TABLE).allowed
    assert not ACCESS.decide(who("scraper"), Action.WRITE, COLUMN).allowed
    assert not ACCESS.decide(who("scraper"), Action.READ, COLUMN).allowed
