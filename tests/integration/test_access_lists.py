"""A list under a principal's predicate holds exactly the assets that would be decided readable one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import hypothesis
import pytest
from access_kit import emptied, make_world, store
from hypothesis import given
from rest_kit import Gateway, gateway

from kit import access_strategies as some
from lily.access.decision_points import Access, FixedBooks
from lily.access.decisions import Action, Resource
from lily.access.principals import Principal
from lily.domain.conditions import Circumstances
from lily.domain.policies import AccessType, Rules
from lily.repositories.postgres.asset_lists import AssetLists, Filters
from lily.repositories.postgres.pool import Database
from lily.settings import Settings


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


def test_a_list_holds_what_decisions_allow_for_random_rules(api: Gateway) -> None:
    world = make_world(varied(), varied())
    store(api, world, {tenant: Rules() for tenant in some.TENANTS})

    async def listed(lists: AssetLists, access: Access, who: Principal, known: Circumstances) -> set[str]:
        condition = access.predicate(who, Action.READ, known).parameters()
        page = await lists.page(who.tenant_id, Filters(deleted=None), condition, "", 100)
        return {asset.asset_id for asset in page}

    async def check_all() -> None:
        database = Database(api.settings.database)
        await database.open()
        loop, lists = asyncio.get_running_loop(), AssetLists(database)

        @given(some.rules, some.principals, some.circumstances)
        @hypothesis.settings(max_examples=150, deadline=None)
        def check(rules: Rules, who: Principal, known: Circumstances) -> None:
            reading = tuple(replace(policy, access_type=AccessType.READ) for policy in rules.policies)
            access = Access(FixedBooks(replace(rules, policies=reading)))
            asking = asyncio.run_coroutine_threadsafe(listed(lists, access, who, known), loop)
            readable = {
                version.resource.id
                for version in world.now.values()
                if access.decide(who, Action.READ, version.resource, known).allowed
            }
            assert asking.result(20) == readable

        try:
            await asyncio.to_thread(check)
        finally:
            await database.close()

    asyncio.run(check_all())
