"""The decision point decides as the model does, for whatever rules, principals and assets there are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import access_strategies as some
from kit.access_model import allows
from lily.access.books import Book
from lily.access.decision_points import Access, FixedBooks
from lily.access.decisions import Action, Resource
from lily.access.principals import Principal
from lily.domain.conditions import Circumstances
from lily.domain.policies import (
    AccessType,
    Effect,
    Grantee,
    GranteeKind,
    Policy,
    Role,
    Rules,
    Scope,
    ScopeKind,
    ScraperPolicy,
)


def access(*policies: Policy, **others: object) -> Access:
    return Access(FixedBooks(Book(Rules(policies=policies, **others))))  # type: ignore[arg-type]


def policy(effect: str, grantee: Grantee, scope: Scope, name: str = "p1", action: str = "READ") -> Policy:
    return Policy(name, grantee, AccessType(action), Effect(effect), scope)


ADA = Principal("acme", "ada", frozenset({"analyst"}))
ANALYST = Grantee(GranteeKind.ROLE, "analyst")
PII = Scope(ScopeKind.TAG, "pii")
EVERYTHING = Scope(ScopeKind.ALL)
SECRET = Resource("acme", id="people", asset_type="table", tags=frozenset({"pii"}))
PLAIN = Resource("acme", id="orders", asset_type="table")


@given(some.rules, some.principals, st.lists(some.resources(), min_size=1, max_size=6), some.circumstances)
def test_every_decision_is_the_models(
    rules: Rules, who: Principal, assets: list[Resource], known: Circumstances
) -> None:
    point = Access(FixedBooks(Book(rules)))
    for asset in assets * 2:  # the second time from memory
        for action in Action:
            decision = point.decide(who, action, asset, known)
            assert decision.allowed == allows(rules, who, action, asset, known), (action, asset, decision)


@given(some.rules, some.principals, some.resources(), some.circumstances)
def test_a_decision_about_all_assets_holds_for_each(
    rules: Rules, who: Principal, asset: Resource, known: Circumstances
) -> None:
    point = Access(FixedBooks(Book(rules)))
    mine = Resource(who.tenant_id, id=asset.id, asset_type=asset.asset_type, tags=asset.tags)
    for action in Action:
        alike = point.decide_for_all(who, action, known)
        allowed = point.decide(who, action, mine, known).allowed
        assert alike is None or alike.allowed == allowed
        assert point.may_ever(who, action).allowed or not allowed


def test_forbidding_wins_and_says_which_policy_did() -> None:
    point = access(policy("allow", ANALYST, EVERYTHING, "yes"), policy("forbid", ANALYST, PII, "no"))
    assert point.decide(ADA, Action.READ, PLAIN).reasons == ("yes",)
    assert point.decide(ADA, Action.READ, SECRET).reasons == ("no",)


def test_what_no_policy_allows_is_denied() -> None:
    assert not access().decide(ADA, Action.READ, PLAIN).allowed
    assert not access(policy("allow", ANALYST, PII)).decide(ADA, Action.READ, PLAIN).allowed
    assert not access(policy("allow", ANALYST, EVERYTHING)).decide(ADA, Action.WRITE, PLAIN).allowed


def test_a_role_has_what_the_roles_it_includes_have_through_cycles_too() -> None:
    roles = (Role("lead", frozenset({"analyst"})), Role("analyst", frozenset({"lead"})))
    point = access(policy("allow", ANALYST, EVERYTHING), roles=roles)
    assert point.decide(Principal("acme", "bob", frozenset({"lead"})), Action.READ, PLAIN).allowed


def test_members_have_a_role_by_themselves_or_by_their_groups() -> None:
    roles = (Role("analyst", users=frozenset({"bob"}), groups=frozenset({"sales"})),)
    point = access(policy("allow", ANALYST, EVERYTHING), roles=roles)
    nobody = frozenset[str]()
    assert point.decide(Principal("acme", "bob", nobody), Action.READ, PLAIN).allowed
    assert point.decide(Principal("acme", "eve", nobody, frozenset({"sales"})), Action.READ, PLAIN).allowed
    assert not point.decide(Principal("acme", "eve", nobody), Action.READ, PLAIN).allowed


def test_a_scraper_touches_only_the_columns_of_its_group_whatever_else_it_may() -> None:
    point = access(
        policy("allow", Grantee(GranteeKind.USER, "bot"), EVERYTHING),
        scraper_policies=(ScraperPolicy("nightly", frozenset({"orders.id", "people"})),),
    )
    bot = Principal("acme", "bot", frozenset({"scraper"}), frozenset({"nightly"}))

    def column(name: str, *containers: str) -> Resource:
        return Resource("acme", id=name, asset_type="column", containers=frozenset(containers))

    assert point.decide(bot, Action.READ, column("orders.id", "orders")).allowed
    assert point.decide(bot, Action.WRITE, column("people.name", "people")).allowed
    assert not point.decide(bot, Action.READ, column("orders.total", "orders")).allowed
    assert point.decide(bot, Action.READ, PLAIN).allowed
    assert point.decide(Principal("acme", "bot", frozenset()), Action.READ, column("orders.total")).allowed


@pytest.mark.parametrize("name", ['"};', "permit(principal, action, resource);", "\\", "\n", "🙂", "a" * 500])
def test_no_name_is_ever_syntax(name: str) -> None:
    grantee, scope = Grantee(GranteeKind.ROLE, name), Scope(ScopeKind.TAG, name)
    point = access(policy("allow", grantee, scope))
    who = Principal("acme", name, frozenset({name}))
    assert point.decide(who, Action.READ, Resource("acme", id=name, tags=frozenset({name}))).allowed
    assert not point.decide(who, Action.READ, Resource("acme", id=name)).allowed
    assert not point.decide(ADA, Action.READ, Resource("acme", id=name, tags=frozenset({name}))).allowed


def test_a_purge_needs_the_right_to_delete_as_well() -> None:
    point = access(policy("forbid", Grantee(GranteeKind.ROLE, "owner"), PII, action="DELETE"))
    owner = Principal("acme", "ada", frozenset({"owner"}))
    assert point.decide(owner, Action.PURGE, PLAIN).allowed
    assert not point.decide(owner, Action.PURGE, SECRET).allowed
