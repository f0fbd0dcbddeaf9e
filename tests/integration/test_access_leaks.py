"""No side doors: what each interface shows is what the model allows, for random rules, tenants and callers.

A new interface is one entry of INTERFACES: the names of all versions of assets it shows to a caller.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

import hypothesis
import pytest
from access_kit import BEFORE, World, emptied, make_world, store, token_of
from hypothesis import given
from hypothesis import strategies as st
from live_kit import cursor_now, missed
from rest_kit import ASSETS, Gateway, gateway, grpc_decide, with_grpc

from kit import access_strategies as some
from kit.access_model import allows
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
from lily.serving.grpc import access_pb2
from lily.settings import Settings
from lily.targets.matching import Subscriptions
from lily.targets.subscribers import LiveSubscribers

T = TypeVar("T")


@dataclass(frozen=True)
class Caller:
    """Somebody at the gateway."""

    api: Gateway
    who: Principal
    token: str
    purpose: str

    def get(self, path: str, **query: str) -> Any:
        answer = self.api.call("GET", path, as_=self.token, headers=self.headers, params=query)
        assert answer.status_code in (200, 403, 404), answer.text
        return answer.json() if answer.status_code == 200 else None

    def post(self, path: str, body: Any) -> Any:
        answer = self.api.call("POST", path, as_=self.token, headers=self.headers, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    @property
    def headers(self) -> dict[str, str]:
        return {"lily-purpose": self.purpose} if self.purpose else {}


def each(path: str, name: Callable[[Any], list[str]], **query: str) -> Callable[[Caller], set[str]]:
    """What is shown when every asset is asked for by its id."""

    def shown(caller: Caller) -> set[str]:
        answers = (caller.get(f"{path}/{quote(asset, safe='')}", **query) for asset in some.ASSETS)
        return {text for answer in answers if answer for text in name(answer)}

    return shown


def listed(caller: Caller) -> set[str]:
    names, token = set(), ""
    while True:
        page = caller.get(ASSETS, page_size="3", page_token=token, deleted="any")
        if page is None:
            return names
        names |= {asset["asset_name"] for asset in page["assets"]}
        token = page["next_page_token"]
        if not token:
            return names


def decided(caller: Caller) -> set[str]:
    asked = [{"action": "READ", "asset_id": asset} for asset in (*some.ASSETS, "unknown")]
    answers = caller.post("/lily/v1/access/decisions", {"decisions": asked})["decisions"]
    tenant = caller.who.tenant_id
    return {
        f"{tenant}:{question['asset_id']}@now"
        for question, answer in zip(asked, answers, strict=True)
        if answer["allowed"]
    }


def decided_over_grpc(caller: Caller) -> set[str]:
    asked = [access_pb2.Question(action="READ", asset_id=asset) for asset in (*some.ASSETS, "unknown")]
    answer = grpc_decide(caller.api, caller.token, asked, purpose=caller.purpose)
    return {
        f"{caller.who.tenant_id}:{question.asset_id}@now"
        for question, decision in zip(asked, answer.decisions, strict=True)
        if decision.allowed
    }


#: Where the log was in each tenant before a change of every asset was told.
CURSORS: dict[str, str] = {}


def told_live(caller: Caller) -> set[str]:
    tenant = caller.who.tenant_id
    found = missed(caller.api, caller.token, CURSORS[tenant], headers=caller.headers)
    return {f"{tenant}:{asset}@now" for asset in found}


def notified(caller: Caller) -> set[str]:
    """What is shown to somebody who once was told of every asset."""
    tenant = caller.who.tenant_id
    for asset in some.ASSETS:
        row = {"tenant_id": tenant, "notification_id": str(uuid4()), "recipient": caller.who.subject}
        told = {"group_key": asset, "state": "new", "count": 1, "first_at": BEFORE, "last_at": BEFORE}
        message = json.dumps({"asset_name": f"{tenant}:{asset}@now"})
        caller.api.insert("notifications", row | told | {"message": message, "asset_id": asset})
    page = caller.get("/lily/v1/notifications", page_size="1000")
    return {each["message"]["asset_name"] for each in page["notifications"]} if page else set()


CURRENT, PAST, BOTH = ("now",), ("before",), ("now", "before")
INTERFACES: dict[str, tuple[Callable[[Caller], set[str]], tuple[str, ...]]] = {
    "asset": (each(ASSETS, lambda asset: [asset["asset_name"]]), CURRENT),
    "as of": (each(ASSETS, lambda asset: [asset["asset_name"]], as_of=BEFORE.isoformat()), PAST),
    "history": (
        each(
            ASSETS, lambda page: [entry["asset"]["asset_name"] for entry in page["history"]], history="true"
        ),
        BOTH,
    ),
    "entity": (each("/metadata", lambda entity: [entity["attributes"]["name"]]), CURRENT),
    "listing": (listed, CURRENT),
    "decisions": (decided, CURRENT),
    "decisions over gRPC": (decided_over_grpc, CURRENT),
    "WebSocket": (told_live, CURRENT),
    "notifications": (notified, CURRENT),
}


@pytest.fixture(scope="module")
def running(shared_settings: Settings) -> Iterator[Gateway]:
    with gateway(with_grpc(shared_settings)) as started:
        for tenant in some.TENANTS:
            CURSORS[tenant] = cursor_now(started, started.token(tenant))
        for tenant in some.TENANTS:
            tell(shared_settings.kafka, *(told(asset, tenant=tenant) for asset in some.ASSETS))
        yield started


@pytest.fixture
def api(running: Gateway) -> Gateway:
    return emptied(running)


def readable(world: World, rules: Rules, who: Principal, known: Circumstances) -> dict[str, set[str]]:
    """By moment: the names of what may be seen; what was before, only of what may be seen now."""

    def may(asset: Resource) -> bool:
        return allows(rules, who, Action.READ, asset, known)

    now = {key for key, version in world.now.items() if may(version.resource)}
    return {
        "now": {world.now[key].name for key in now},
        "before": {world.before[key].name for key in now if may(world.before[key].resource)},
    }


# The gateway in this process draws random numbers of its own while Hypothesis draws.
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
def test_every_interface_shows_what_the_model_allows_and_nothing_more(api: Gateway) -> None:
    assets = st.lists(some.resources(), min_size=16, max_size=16)
    callers = st.lists(st.tuples(some.principals, st.sampled_from(("", "support"))), min_size=2, max_size=3)

    @given(assets, assets, some.rules, some.rules, callers)
    @hypothesis.settings(max_examples=20, deadline=None)
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
            expected = readable(world, rules[who.tenant_id], who, known)
            for name, (interface, moments) in INTERFACES.items():
                if name == "WebSocket" and who is not asking[0][0]:
                    continue  # it reads the log again, which takes long
                assert interface(caller) == set().union(*(expected[moment] for moment in moments)), (
                    name,
                    who,
                )

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
    ):
        hidden = api.call(method, path.format("secret"), as_=viewer)
        absent = api.call(method, path.format("absent"), as_=viewer)
        assert hidden.status_code == absent.status_code
        blanked = [
            {k: v for k, v in answer.json().items() if k not in ("trace_id",)} for answer in (hidden, absent)
        ]
        assert str(blanked[0]).replace("secret", "absent") == str(blanked[1]), path
