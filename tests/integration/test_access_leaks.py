"""No side doors: what each interface shows is what the model allows, for random rules, tenants and callers.

A new interface is one entry of `leak_kit.INTERFACES`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import uuid4

import hypothesis
import leak_kit as leaks
import pytest
from access_kit import BEFORE, World, emptied, make_world, store, token_of
from hypothesis import given
from hypothesis import strategies as st
from leak_kit import Caller
from live_kit import cursor_now
from rest_kit import ASSETS, Gateway, gateway, with_grpc

from kit import access_strategies as some
from kit.access_model import allows, may_read_kind
from kit.told import tell, told
from lily.access.decision_points import Access
from lily.access.decisions import Action, Resource
from lily.access.live_books import LiveBooks
from lily.access.principals import Principal
from lily.domain.changes import Change, ChangeKind
from lily.domain.conditions import Circumstances
from lily.domain.policies import Rules
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.assets import PostgresAssets
from lily.repositories.postgres.lineage import PostgresLineage
from lily.repositories.postgres.policies import PostgresPolicies
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.subscriptions import PostgresSubscriptions
from lily.settings import Settings
from lily.targets.matching import Subscriptions
from lily.targets.subscribers import LiveSubscribers

T = TypeVar("T")


@pytest.fixture(scope="module")
def running(shared_settings: Settings) -> Iterator[Gateway]:
    with gateway(with_grpc(shared_settings)) as started:
        for tenant in some.TENANTS:
            leaks.CURSORS[tenant] = cursor_now(started, started.token(tenant))
        for tenant in some.TENANTS:
            tell(shared_settings.kafka, *(told(asset, tenant=tenant) for asset in some.ASSETS))
        yield started


@pytest.fixture
def api(running: Gateway) -> Gateway:
    return emptied(running)


def expected(world: World, rules: Rules, who: Principal, known: Circumstances) -> dict[str, set[str]]:
    """What may be seen; of what was before, only of what may be seen now."""

    def may(asset: Resource, action: Action = Action.READ) -> bool:
        return allows(rules, who, action, asset, known)

    of_tenant = {asset_id: each for (tenant, asset_id), each in world.now.items() if tenant == who.tenant_id}
    now = {asset_id for asset_id, version in of_tenant.items() if may(version.resource)}
    names = {asset_id: of_tenant[asset_id].name for asset_id in now}
    before = [world.before[who.tenant_id, asset_id] for asset_id in now]
    edges = {(parent, asset) for asset in now for parent in some.PARENTS.get(asset, ()) if parent in now}
    columns = {asset_id for asset_id in now if of_tenant[asset_id].resource.asset_type == "column"}
    reached = {
        each.name: len({asset for asset in now if key in (asset, *some.containers_of(asset))})
        for key, each in of_tenant.items()
        if may(each.resource, Action.WRITE)
    }
    return {
        leaks.NOW: set(names.values()),
        leaks.PAST: {version.name for version in before if may(version.resource)},
        leaks.EDGES: {f"{who.tenant_id}:{above} > {below}" for above, below in edges},
        leaks.WAYS: {f"{who.tenant_id}:{above} > {below}" for above, below in ways(edges)},
        leaks.DELIVERED: {*names.values()} if may_read_kind(rules, who, "owner", "auditor") else set(),
        leaks.PROTECTED: {names[column] for column in columns}
        if may_read_kind(rules, who, "owner", "steward", "auditor")
        else set(),
        leaks.PREVIEWED: {f"{name} reaches {many}" for name, many in reached.items() if many},
    }


def ways(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Between which assets these edges are a way, of any length."""
    found = set(edges)
    while more := {(a, d) for a, b in found for c, d in edges if b == c} - found:
        found |= more
    return found


# The gateway in this process draws random numbers of its own while Hypothesis draws.
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
def test_every_interface_shows_what_the_model_allows_and_nothing_more(api: Gateway) -> None:
    assets = st.lists(some.resources(), min_size=16, max_size=16)
    callers = st.lists(st.tuples(some.principals, st.sampled_from(("", "support"))), min_size=2, max_size=3)

    @given(assets, assets, some.rules, some.rules, callers)
    # Not shrunk: against a real gateway that would take minutes.
    @hypothesis.settings(max_examples=8, deadline=None, phases=(hypothesis.Phase.generate,))
    def check(
        now: list[Resource],
        past: list[Resource],
        of_acme: Rules,
        of_globex: Rules,
        asking: list[tuple[Principal, str]],
    ) -> None:
        world, rules = make_world(now, past), {"acme": of_acme, "globex": of_globex}
        store(api, world, rules)
        for who, purpose in asking:
            caller = Caller(api, who, token_of(api, who), purpose)
            known = Circumstances(datetime.now(UTC), "127.0.0.1", purpose)
            seen = expected(world, rules[who.tenant_id], who, known)
            for name, (interface, of) in leaks.INTERFACES.items():
                if name == "WebSocket" and who is not asking[0][0]:
                    continue  # it reads the log again, which takes long
                assert interface(caller) == set().union(*(seen[each] for each in of)), (name, who)

    check()


class Telling:
    """What subscriptions tell, matched in a process of its own beside the gateway's."""

    def __init__(self, settings: Settings) -> None:
        # A loop that runs also while nothing is asked: who listens must hear.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._stack = AsyncExitStack()
        self._database = database = Database(settings.database)
        self._announcements = Announcements(database)
        self._subscriptions = Subscriptions(
            LiveSubscribers(self._announcements, PostgresSubscriptions(database)),
            PostgresAssets(database),
            PostgresLineage(database),
            Access(LiveBooks(self._announcements, PostgresPolicies(database))),
        )

    def __enter__(self) -> Telling:
        self._thread.start()
        self._run(self._database.open())
        self._stack.push_async_callback(self._database.close)
        self._run(self._stack.enter_async_context(self._announcements.running()))
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def told_to(self, api: Gateway, who: Principal) -> set[str]:
        """The names of the assets of whose changes somebody's subscription tells."""
        row = {"tenant_id": who.tenant_id, "name": "all", "owner": who.subject, "selection": "{}"}
        rights = {"roles": sorted(who.roles), "groups": sorted(who.groups)}
        scopes = None if who.scopes is None else sorted(who.scopes)
        api.execute("DELETE FROM subscriptions")  # announced, as every change is
        api.insert("subscriptions", row | rights | {"scopes": scopes})
        changes = [
            Change(tenant, ChangeKind.ASSET, asset, str(uuid4()), "updated", "", BEFORE, {})
            for tenant in some.TENANTS
            for asset in some.ASSETS
        ]

        async def matched() -> set[str]:
            await self._announcements.wait_until_heard()
            return {m.message.asset_name for m in await self._subscriptions.matching(changes)}

        return self._run(matched())


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
def test_a_subscription_tells_what_the_model_allows_its_owner_and_nothing_more(api: Gateway) -> None:
    assets = st.lists(some.resources(), min_size=16, max_size=16)

    @given(assets, some.rules, some.rules, st.lists(some.principals, min_size=2, max_size=4))
    # Not shrunk: against a real gateway that would take minutes.
    @hypothesis.settings(max_examples=4, deadline=None, phases=(hypothesis.Phase.generate,))
    def check(now: list[Resource], of_acme: Rules, of_globex: Rules, owners: list[Principal]) -> None:
        world, rules = make_world(now, now), {"acme": of_acme, "globex": of_globex}
        store(api, world, rules)
        for who in owners:
            # Nobody asks: neither from where nor for what it will be read is known.
            known = Circumstances(datetime.now(UTC))
            expected = {
                version.name
                for version in world.now.values()
                if version.resource.tenant_id == who.tenant_id
                and allows(rules[who.tenant_id], who, Action.READ, version.resource, known)
            }
            assert telling.told_to(api, who) == expected, who

    with Telling(api.settings) as telling:
        check()


def test_an_asset_that_may_not_be_read_is_answered_as_one_that_is_not_there(api: Gateway) -> None:
    api.stored(asset_id="secret", user_tags=["pii"])
    edge = {"tenant_id": "acme", "from_id": "secret", "to_id": "end", "relationship_type": "uses"}
    api.insert("edges", edge | {"asserted_at": datetime.now(UTC)})
    policy = {"role": "viewer", "access_type": "READ", "effect": "forbid", "scope": "tag", "value": "pii"}
    assert api.call("POST", "/lily/v1/metadata/access-control", json=policy).status_code == 201
    viewer = api.token(role="viewer")
    for path, method in (
        (f"{ASSETS}/{{}}", "GET"),
        (f"{ASSETS}/{{}}?history=true", "GET"),
        (f"{ASSETS}/{{}}?as_of=2027-01-01T00:00:00Z", "GET"),
        ("/metadata/{}", "GET"),
        (f"{ASSETS}/{{}}", "DELETE"),
        ("/metadata/{}", "DELETE"),
        (f"{ASSETS}/lineage/{{}}", "GET"),
        (f"{ASSETS}/lineage/{{}}/impact", "GET"),
        (f"{ASSETS}/lineage/{{}}/diff?from=2026-01-01T00:00:00Z", "GET"),
        (f"{ASSETS}/lineage/paths?from={{}}&to=end", "GET"),
        (f"{ASSETS}/lineage/paths?from=end&to={{}}", "GET"),
    ):
        hidden = api.call(method, path.format("secret"), as_=viewer)
        absent = api.call(method, path.format("absent"), as_=viewer)
        assert hidden.status_code == absent.status_code
        blanked = [
            {k: v for k, v in answer.json().items() if k not in ("trace_id",)} for answer in (hidden, absent)
        ]
        assert str(blanked[0]).replace("secret", "absent") == str(blanked[1]), path
