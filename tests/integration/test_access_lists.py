"""A list under a principal's predicate holds exactly the assets that would be decided readable one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import hypothesis
import pytest
from access_kit import World, emptied, make_world, store
from hypothesis import given
from rest_kit import Gateway, gateway

from kit import access_strategies as some
from lily.access.books import Book
from lily.access.decision_points import Access, FixedBooks
from lily.access.decisions import Action, Resource
from lily.access.principals import Principal
from lily.domain.conditions import Circumstances
from lily.domain.policies import AccessType, Effect, Grantee, GranteeKind, Policy, Rules, Scope, ScopeKind
from lily.repositories.postgres.asset_lists import AssetLists, Filters
from lily.repositories.postgres.pool import Database
from lily.settings import Settings

VIEWER, ANALYST = Grantee(GranteeKind.ROLE, "viewer"), Grantee(GranteeKind.ROLE, "analyst")


@pytest.fixture
def api(settings_without_log: Settings) -> Iterator[Gateway]:
    with gateway(settings_without_log) as running:
        yield emptied(running)


def varied() -> Iterator[Resource]:
    """As many different assets as fit, with none, one or two tags, from a source or none."""
    for number in range(16):
        tags = frozenset(some.TAGS[index] for index in range(3) if (number * 5 + 3) >> index & 1)
        source = (*some.SOURCES, "")[number % 3]
        yield Resource("", asset_type=some.TYPES[number % 3], data_source=source, tags=tags)


class Lists:
    """A world in PostgreSQL, and a check that a list of it holds what decisions allow."""

    def __init__(self, lists: AssetLists, world: World) -> None:
        self._lists = lists
        self._world = world
        self._loop = asyncio.get_running_loop()

    def check(self, rules: Rules, who: Principal, known: Circumstances) -> None:
        access = Access(FixedBooks(Book(rules)))
        listing = asyncio.run_coroutine_threadsafe(self._listed(access, who, known), self._loop)
        assert listing.result(20) == {
            version.resource.id
            for version in self._world.now.values()
            if access.decide(who, Action.READ, version.resource, known).allowed
        }, (rules, who, known)

    async def _listed(self, access: Access, who: Principal, known: Circumstances) -> set[str]:
        condition = access.predicate(who, Action.READ, known).parameters()
        found: list[str] = []
        while page := await self._lists.page(
            who.tenant_id, Filters(deleted=None), condition, found[-1] if found else "", 4
        ):
            found += [asset.asset_id for asset in page]
        assert found == sorted(set(found))
        return set(found)


def with_lists(api: Gateway, run: Callable[[Lists], None]) -> None:
    world = make_world(varied(), varied())
    store(api, world, {tenant: Rules() for tenant in some.TENANTS})

    async def running() -> None:
        database = Database(api.settings.database)
        await database.open()
        try:
            await asyncio.to_thread(run, Lists(AssetLists(database), world))
        finally:
            await database.close()

    asyncio.run(running())


def test_a_list_holds_what_decisions_allow_for_every_scope_allowed_and_forbidden(api: Gateway) -> None:
    values = {
        ScopeKind.ALL: ("",),
        ScopeKind.ASSET: some.ASSETS,
        ScopeKind.CONTAINED: some.ASSETS,
        ScopeKind.TAG: some.TAGS,
        ScopeKind.TYPE: some.TYPES,
        ScopeKind.SOURCE: some.SOURCES,
    }

    def run(lists: Lists) -> None:
        for tenant in some.TENANTS:
            who = Principal(tenant, "ada", frozenset({"viewer"}))
            nobody = Principal(tenant, "ada", frozenset({"analyst"}))
            for scope in (Scope(kind, value) for kind, found in values.items() for value in found):
                for grantee, effect, reader in (
                    (VIEWER, Effect.FORBID, who),
                    (ANALYST, Effect.ALLOW, nobody),
                ):
                    policy = Policy("p", grantee, AccessType.READ, effect, scope)
                    lists.check(Rules(policies=(policy,)), reader, Circumstances(some.NOON))

    with_lists(api, run)


# The gateway in this process draws random numbers of its own while Hypothesis draws.
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
def test_a_list_holds_what_decisions_allow_for_random_rules(api: Gateway) -> None:
    def run(lists: Lists) -> None:
        @given(some.rules, some.principals, some.circumstances)
        @hypothesis.settings(max_examples=150, deadline=None)
        def check(rules: Rules, who: Principal, known: Circumstances) -> None:
            who = replace(who, roles=who.roles | {"viewer"})
            # Every other policy is about viewers, so that most examples have something to hide.
            reading = tuple(
                replace(policy, access_type=AccessType.READ, grantee=(policy.grantee, VIEWER)[number % 2])
                for number, policy in enumerate(rules.policies)
            )
            lists.check(replace(rules, policies=reading), who, known)

        check()

    with_lists(api, run)
