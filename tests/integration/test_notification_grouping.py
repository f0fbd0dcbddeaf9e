"""Notifications for people against a model: grouped, counted, and got on with, whatever is read how often."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import hypothesis
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.notification_model import NotificationModel
from lily.domain.changes import Change, read_change
from lily.domain.notifications import State, newest_of_groups, notification_id
from lily.domain.subscriptions import Match, Subscription
from lily.domain.wording import Told, compose
from lily.repositories.postgres.notifications import PostgresNotifications, Step, Wanted
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.told import record_matches
from lily.settings import Settings

NOW = datetime(2026, 2, 1, tzinfo=UTC)
#: Two people; one has two subscriptions.
SUBSCRIPTIONS = (("ada", 1), ("ada", 2), ("bob", 3))
STEPS = {"see": State.SEEN, "acknowledge": State.ACKNOWLEDGED, "resolve": State.RESOLVED}
KINDS = ("incident.opened", "incident.updated", "incident.acknowledged", "incident.resolved",
         "incident.reopened", "incident.commented", "tags.changed", "asset.updated")  # fmt: skip


class Ledger:
    """A database in which matches are recorded as a dispatcher does it."""

    def __init__(self, settings: Settings) -> None:
        self._runner = asyncio.Runner()
        self._url = settings.database.url.get_secret_value()
        self.database = Database(settings.database)
        self.notifications = PostgresNotifications(self.database)
        self.run(self.database.open())
        self._connection = self.run(psycopg.AsyncConnection.connect(self._url, autocommit=True))

    def run(self, work):  # type: ignore[no-untyped-def]  # whatever it returns
        return self._runner.run(work)

    def record(self, matches: Sequence[Match], commit: bool = True) -> list[Match]:
        async def work() -> list[Match]:
            async with self._connection.transaction(force_rollback=not commit):
                return await record_matches(self._connection, matches)

        found: list[Match] = self.run(work())
        return found

    def close(self) -> None:
        self.run(self._connection.close())
        self.run(self.database.close())
        self._runner.close()


@pytest.fixture
def told(settings_without_log: Settings) -> Iterator[Ledger]:
    opened = Ledger(settings_without_log)
    yield opened
    opened.close()


@dataclass(frozen=True)
class Happening:
    """A change; its number makes it the same one each time."""

    number: int
    name: str
    group: int


happenings = st.builds(Happening, st.integers(0, 1), st.sampled_from(KINDS), st.integers(1, 2))
batches = st.lists(
    st.tuples(
        st.lists(st.tuples(happenings, st.sampled_from(SUBSCRIPTIONS)), max_size=6),
        st.sampled_from(("keep", "keep", "lose", "twice")),
        st.tuples(st.sampled_from(("ada", "bob")), st.integers(1, 2), st.sampled_from(sorted(STEPS))),
    ),
    min_size=1,
    max_size=6,
)


def change_of(tenant: str, what: Happening) -> Change:
    kind, _, outcome = what.name.partition(".")
    said = {
        "tenant_id": tenant,
        "asset_id": "orders",
        "event_id": str(UUID(int=what.number * 100 + KINDS.index(what.name) * 10 + what.group)),
        "outcome": outcome,
        "applied_at": (NOW + timedelta(seconds=what.number)).isoformat(),
        "cause": f"cause-{what.group}",
        "incident_id": f"incident-{what.group}" if kind == "incident" else None,
    }
    change = read_change(f"io.lily.{kind}.changed.v1", said)
    assert change is not None
    return change


def match_of(tenant: str, what: Happening, owner: str, number: int) -> Match:
    subscription = Subscription(tenant, str(UUID(int=number)), f"s{number}", owner)
    change = change_of(tenant, what)
    return Match(subscription, change, change.event_id, compose(subscription, Told(change, None)))


def test_notifications_are_what_the_model_says_however_often_changes_are_read(told: Ledger) -> None:
    @given(batches)
    @hypothesis.settings(max_examples=60, deadline=None)
    def check(
        history: list[tuple[list[tuple[Happening, tuple[str, int]]], str, tuple[str, int, str]]],
    ) -> None:
        tenant, model = f"t-{uuid4()}", NotificationModel()
        known: dict[tuple[str, str], str] = {}
        for batch, fate, (person, group, step) in history:
            matches = [match_of(tenant, what, *of) for what, of in batch]
            if fate == "lose":
                told.record(matches, commit=False)
            news = [
                (m.subscription.subscription_id, m.cause_key)
                for m in matches
                if model.tell(
                    m.subscription.owner,
                    m.subscription.subscription_id,
                    m.message.group_key,
                    m.cause_key,
                    m.change.name,
                )
            ]
            fresh = told.record(matches)
            assert [(m.subscription.subscription_id, m.cause_key) for m in fresh] == news
            if fate == "twice":
                assert told.record(matches) == []
            for m in matches:
                known[m.subscription.owner, m.message.group_key] = notification_id(m)
            key = (person, f"incident:incident-{group}")
            if key in known:
                told.run(told.notifications.change(tenant, person, known[key], Step(STEPS[step])))
                model.step(*key, step)
        for person in ("ada", "bob"):
            found = told.run(told.notifications.list(tenant, person, Wanted()))
            assert {n.group_key: (n.state, n.count, n.message["count"]) for n in found} == {
                group: (each.state, len(each.causes), len(each.causes))
                for (who, group), each in model.notifications.items()
                if who == person
            }

    check()


def test_a_storm_is_one_notification_with_a_count_and_one_message_at_a_target(told: Ledger) -> None:
    storm = [match_of("acme", Happening(number, "tags.changed", 1), "ada", 1) for number in range(500)]
    fresh = [*told.record(storm[:300]), *told.record(storm[300:])]
    [notification] = told.run(told.notifications.list("acme", "ada", Wanted()))
    assert (notification.count, notification.state) == (500, "new")
    assert notification.first_at == NOW
    assert notification.last_at == NOW + timedelta(seconds=499)
    assert [m.message.count for m in newest_of_groups(fresh)] == [500]
    assert len(fresh) == 500


def test_what_another_subscription_tells_again_later_is_nothing_new_to_the_person(told: Ledger) -> None:
    what = Happening(1, "tags.changed", 1)
    told.record([match_of("acme", what, "ada", 1)])
    [notification] = told.run(told.notifications.list("acme", "ada", Wanted()))
    told.run(told.notifications.change("acme", "ada", notification.notification_id, Step(State.SEEN)))
    assert len(told.record([match_of("acme", what, "ada", 2)])) == 1
    [notification] = told.run(told.notifications.list("acme", "ada", Wanted()))
    assert (notification.state, notification.count) == ("seen", 1)


def test_steps_of_an_incident_are_not_swallowed_by_later_ones() -> None:
    names = ("incident.opened", "incident.commented", "incident.commented", "incident.resolved")
    steps = [match_of("acme", Happening(n, name, 1), "ada", 1) for n, name in enumerate(names)]
    assert [m.change.name for m in newest_of_groups(steps)] == [
        "incident.opened",
        "incident.commented",
        "incident.resolved",
    ]


def test_two_who_read_the_same_changes_at_once_count_them_once(
    told: Ledger, settings_without_log: Settings
) -> None:
    url = settings_without_log.database.url.get_secret_value()
    matches = [
        match_of("acme", Happening(number, "tags.changed", 1 + number % 2), *of)
        for number in range(100)
        for of in SUBSCRIPTIONS
    ]

    async def reader(backwards: bool) -> int:
        fresh = 0
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            mine = matches[::-1] if backwards else matches
            for first in range(0, len(mine), 30):
                async with connection.transaction():
                    fresh += len(await record_matches(connection, mine[first : first + 30]))
        return fresh

    async def race() -> list[int]:
        return list(await asyncio.gather(*(reader(bool(number % 2)) for number in range(4))))

    assert sum(told.run(race())) == len(matches)
    for person in ("ada", "bob"):
        found = told.run(told.notifications.list("acme", person, Wanted()))
        assert sorted(each.count for each in found) == [50, 50]
