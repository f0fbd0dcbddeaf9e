"""Whatever dispatchers do and whenever they die, the queues are what a small model says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

import hypothesis.strategies as st
import psycopg
from delivery_kit import message
from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from kit.delivery_model import Model
from lily.domain.deliveries import NewDelivery, Outcome, QueueName, Receipt, Shipment, Status
from lily.repositories.postgres.deliveries import DeliveryQueues

T = TypeVar("T")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
TARGETS = ("1f0d1c0e-0000-4000-8000-000000000001", "1f0d1c0e-0000-4000-8000-000000000002")
ASSETS = ("a", "b")
WORKERS = (0, 1, 2)
OK, NO = Receipt(Outcome.DELIVERED, "", 200), Receipt(Outcome.FAILED, "", 500)
workers, targets, assets = st.sampled_from(WORKERS), st.sampled_from(TARGETS), st.sampled_from(ASSETS)


class Dispatcher:
    """One that claims and sends only when the test says so."""

    def __init__(self, url: str) -> None:
        self.queues = DeliveryQueues(url, connections=1, clock=BEGIN)
        self.connection: psycopg.AsyncConnection[Any] | None = None
        #: What it believes to hold, with the message it is sending.
        self.sending: dict[QueueName, Shipment] = {}

    async def live(self) -> None:
        await self.queues._pool.open(wait=True)
        await self.be_born()

    async def be_born(self) -> None:
        self.connection = await psycopg.AsyncConnection.connect(self.queues.url, autocommit=True)
        await self.queues.listen(self.connection)

    async def die(self) -> None:
        """As a process dies: its session ends, and what it knew is gone."""
        assert self.connection is not None
        await self.connection.close()
        self.sending.clear()

    async def end(self) -> None:
        if self.connection:
            await self.connection.close()
        await self.queues._pool.close()


class Deliveries(RuleBasedStateMachine):
    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.model = Model()
        self.tenant = f"t{uuid4().hex}"
        self.sent: list[tuple[str, str, str]] = []
        self.dispatchers = [Dispatcher(self.url) for _ in WORKERS]
        for each in self.dispatchers:
            self.do(each.live())
        self.model.living = {each.queues.holder for each in self.dispatchers}

    def teardown(self) -> None:
        for each in self.dispatchers:
            self.do(each.end())
        self.loop.close()
        with psycopg.connect(self.url) as connection:
            connection.execute("TRUNCATE deliveries, delivery_queues, delivery_targets, delivery_threads")

    def do(self, work: Awaitable[T]) -> T:
        async def run() -> T:
            return await work

        return self.loop.run_until_complete(run())

    @rule(worker=workers, there=targets, asset=assets, number=st.integers(0, 9))
    def enqueue(self, worker: int, there: str, asset: str, number: int) -> None:
        said, cause = message(asset_id=asset, group_key="g"), f"{there}/{asset}/{number}"
        wanted = NewDelivery(self.tenant, "rule", cause, there, said, BEGIN)
        added = self.do(self.dispatchers[worker].queues.enqueue([wanted]))
        assert bool(added) == self.model.enqueue(there, f"asset:{asset}", str(wanted.delivery_id))

    @rule(worker=workers, room=st.integers(1, 2))
    def claim(self, worker: int, room: int) -> None:
        dispatcher, model = self.dispatchers[worker], self.model
        claimed = self.do(dispatcher.queues.claim({}, room, 100))
        names = {(each.connector_id, each.queue) for each in claimed}
        assert names <= model.free()
        for target in TARGETS:
            free = sum(name[0] == target for name in model.free())
            assert sum(name[0] == target for name in names) == min(room, free)
        for each in claimed:
            model.claim(dispatcher.queues.holder, (each.connector_id, each.queue))
            self.begin(dispatcher, each)

    def begin(self, dispatcher: Dispatcher, name: QueueName) -> None:
        [(shipment, must_wait)] = self.do(dispatcher.queues.begin({name: False}))
        first = self.model.queues[(name.connector_id, name.queue)].pending[0]
        assert (str(shipment.delivery_id), must_wait) == (first, False)
        assert shipment.failures == self.model.failures[first]
        dispatcher.sending[name] = shipment
        self.sent.append((name.connector_id, name.queue, first))

    @rule(worker=workers, is_taken=st.booleans())
    def conclude(self, worker: int, is_taken: bool) -> None:
        """What is on its way arrives or does not; one that lost its lease meanwhile comes to late."""
        dispatcher = self.dispatchers[worker]
        if not dispatcher.sending:
            return
        name, shipment = dispatcher.sending.popitem()
        place, holder = (name.connector_id, name.queue), dispatcher.queues.holder
        id_ = str(shipment.delivery_id)
        if not is_taken:
            self.do(dispatcher.queues.postpone(shipment, NO, 0.1, 300))
            self.model.postpone(holder, place, id_, 300)
            return
        finished = self.do(dispatcher.queues.finish(shipment, OK, Status.DELIVERED, 0.1))
        self.model.finish(place, id_, "delivered")
        queue = self.model.queues[place]
        assert finished.left == len(queue.pending)
        goes_on = (
            queue.holder == holder
            and bool(queue.pending)
            and queue.next_at <= self.model.now < queue.lease_until
            and self.model.held_until.get(place[0], 0.0) <= self.model.now
        )
        if not finished.left:
            self.model.release(holder, place)
            return
        assert self.do(dispatcher.queues.renew(name)) == goes_on
        if goes_on:
            self.model.claim(holder, place)
            self.begin(dispatcher, name)
        else:
            self.do(dispatcher.queues.release(name))
            self.model.release(holder, place)

    @rule(worker=workers)
    def die(self, worker: int) -> None:
        dispatcher = self.dispatchers[worker]
        self.model.living.discard(dispatcher.queues.holder)
        self.do(dispatcher.die())
        self.wait_until_gone(dispatcher.queues.holder)
        self.do(dispatcher.be_born())
        self.model.living.add(dispatcher.queues.holder)

    def wait_until_gone(self, holder: int) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            query = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid::bigint = %s"
            while connection.execute(query, [holder]).fetchone():
                pass

    @rule(worker=workers, there=targets)
    def hold(self, worker: int, there: str) -> None:
        """A target asks to be left alone for a minute and a half."""
        name = QueueName(self.tenant, there, "")
        self.do(self.dispatchers[worker].queues.hold_target(name, 90))
        if any(place[0] == there for place in self.model.queues):
            self.model.held_until[there] = self.model.now + 90

    @rule(seconds=st.sampled_from([1, 59, 61, 400]))
    def pass_time(self, seconds: int) -> None:
        self.model.now += seconds
        for each in self.dispatchers:
            each.queues.clock = BEGIN + timedelta(seconds=self.model.now)

    @invariant()
    def first_arrivals_are_in_order(self) -> None:
        first: dict[tuple[str, str], list[str]] = {}
        for target, queue, id_ in self.sent:
            seen = first.setdefault((target, queue), [])
            if id_ not in seen:
                seen.append(id_)
        order = self.order()
        for seen in first.values():
            assert seen == sorted(seen, key=order.index)

    def order(self) -> list[str]:
        query = "SELECT delivery_id::text FROM deliveries WHERE tenant_id = %s ORDER BY seq"
        return [row[0] for row in self.fetch(query)]

    @invariant()
    def what_is_stored_is_what_the_model_says(self) -> None:
        rows = self.fetch("SELECT delivery_id::text, status FROM deliveries WHERE tenant_id = %s")
        assert {id_: status for id_, status in rows if status != "pending"} == self.model.done
        query = "SELECT connector_id::text, queue, pending FROM delivery_queues WHERE tenant_id = %s"
        counted = {(target, queue): count for target, queue, count in self.fetch(query) if count}
        assert counted == {name: len(q.pending) for name, q in self.model.queues.items() if q.pending}

    def fetch(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(query.encode(), [self.tenant]).fetchall()


def test_queues_are_what_the_model_says_whatever_dispatchers_do(database: str) -> None:
    Deliveries.url = database
    chosen = hypothesis_settings(max_examples=12, stateful_step_count=30)
    run_state_machine_as_test(Deliveries, settings=chosen)


def test_an_id_is_a_uuid_that_follows_from_what_is_told() -> None:
    made = NewDelivery("t", "rule", "cause", TARGETS[0], message(), BEGIN)
    assert isinstance(made.delivery_id, UUID)
    assert made.delivery_id == NewDelivery("t", "rule", "cause", TARGETS[1], message("x"), BEGIN).delivery_id
