"""The two lanes on one database: the same asset at the same moment, and the batch ledger."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest

from kit.events import at, event, table
from kit.eventually import eventually
from kit.model import Event, Model
from kit.staging import TENANT, Catalog, batch_of, stage
from lily.domain.assets import Lane
from lily.domain.errors import MisconfiguredError
from lily.pipeline.lanes import LaneQuery, apply_once
from lily.pipeline.staging import SCHEMA
from lily.repositories.postgres.applier import Applier, Batch, Phases, Position
from lily.repositories.postgres.outbox import Outbox, changes_of, dead_letters_of

_WAITING = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
_HELD_CHANGE = """
INSERT INTO changes (lane, tenant_id, asset_id, event_id, event_time, outcome, version, fields, actor)
VALUES ('structural', %s, 'held', %s, now(), 'refused', 0, 0, '')
"""


class Race:
    """Two lanes whose transactions overlap: the first has written and not committed when the second reads."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._appliers = {lane: Applier(catalog.url) for lane in Lane}

    def run(self, first: Event, second: Event) -> None:
        with ThreadPoolExecutor() as threads, psycopg.connect(self._catalog.url) as obstacle:
            # The first lane stops at its row of the ledger, which is written last.
            obstacle.execute(
                "INSERT INTO stream_positions (query, batch_id, offsets, events, dead) "
                "VALUES ('assets-structural', 0, '{}', 0, 0) ON CONFLICT (query) DO UPDATE SET events = 0"
            )
            ahead = threads.submit(self._apply, Lane.STRUCTURAL, first)
            eventually(lambda: self._waiting() == 1)
            behind = threads.submit(self._apply, Lane.LEAF, second)
            eventually(lambda: self._waiting() == 2)
            obstacle.rollback()
            _raise_errors_of(ahead, behind)
        for applier in self._appliers.values():
            applier.close()

    def _apply(self, lane: Lane, event: Event) -> None:
        self._appliers[lane].apply_table(batch_of(1, 1, lane), stage([event]))

    def _waiting(self) -> int:
        return len(self._catalog.fetch(_WAITING))


def _raise_errors_of(*futures: Future[None]) -> None:
    for future in futures:
        future.result(30)


RACES: dict[str, tuple[list[Event], Event, Event]] = {
    "both create it": ([], table(minute=1), event(minute=2, asset_owner="ada")),
    "both newer": ([table()], event(minute=1, asset_owner="ada"), event(minute=2, description="all")),
    "the first late": (
        [table(minute=9)],
        event(minute=1, asset_owner="ada"),
        event(minute=10, description="all"),
    ),
    "the second late": (
        [table(minute=9)],
        event(minute=10, description="all"),
        event(minute=1, asset_owner="ada"),
    ),
    "both late": ([table(minute=9)], event(minute=1, asset_owner="ada"), event(minute=2, description="all")),
    "the first says nothing new": ([table()], table(minute=2), event(minute=1, asset_name="between")),
}


@pytest.mark.parametrize("case", RACES, ids=str)
def test_two_lanes_writing_the_same_asset_at_once_lose_nothing(catalog: Catalog, case: str) -> None:
    before, first, second = RACES[case]
    model = Model()
    if before:
        catalog.apply(*before)
    Race(catalog).run(first, second)
    for each in (*before, first, second):
        model.apply(each)
    assert catalog.rows() == model.rows()
    assert {change.event_id: change for change in catalog.changes()} == model.changes


def test_one_event_on_both_lanes_at_once_counts_once(catalog: Catalog) -> None:
    once = table()
    Race(catalog).run(once, once)
    assert catalog.outcomes() == ["created"]


def apply(catalog: Catalog, batch: Batch, *events: Event) -> Phases | None:
    query = LaneQuery(batch.query, batch.lane, catalog.applier, lambda _: None)
    return apply_once(query, batch, lambda: catalog.applier.apply_table(batch, stage(events)))


def test_a_batch_that_comes_again_is_a_no_op(catalog: Catalog) -> None:
    assert apply(catalog, batch_of(1, 4), table()) is not None
    before = catalog.fetch("SELECT * FROM stream_positions")
    assert apply(catalog, batch_of(1, 4), table("customers")) is None
    assert set(catalog.rows()) == {"orders"}
    assert catalog.fetch("SELECT * FROM stream_positions") == before


def test_a_batch_number_that_comes_back_with_more_events_is_refused(catalog: Catalog) -> None:
    apply(catalog, batch_of(1, 4), table())
    with pytest.raises(MisconfiguredError, match="older than the database"):
        apply(catalog, batch_of(2, 3), table("customers"))
    assert set(catalog.rows()) == {"orders"}


def test_a_batch_waits_for_a_database_that_restarts(catalog: Catalog) -> None:
    catalog.applier.position("assets-structural")
    catalog.fetch(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert apply(catalog, batch_of(1, 1), table()) is not None
    assert catalog.row("orders")["clock_time"] == at(0)


def test_an_event_the_database_cannot_take_is_buried_and_the_rest_of_its_batch_applied(
    catalog: Catalog,
) -> None:
    events = [table("a"), table("b"), table("c"), event("a", minute=1, asset_owner="ada")]
    staged = stage(events)
    ids = [str(each.event_id) for each in events]
    ids[1] = "no uuid"
    staged = staged.set_column(staged.schema.get_field_index("event_id"), "event_id", [ids])
    catalog.applier.apply_table(batch_of(4, 1), staged)
    assert set(catalog.rows()) == {"a", "c"}
    assert catalog.row("a")["asset_owner"] == "ada"
    assert catalog.fetch('SELECT "offset", event_id FROM dead_letters') == [
        {"offset": 1, "event_id": "no uuid"}
    ]
    assert catalog.applier.position("assets-structural") == Position(1, {"0": 4})


def chunk(events: int) -> Batch:
    """A part of a batch of the leaf lane, as an executor applies it."""
    return replace(batch_of(events, 1, Lane.LEAF), ends_here=False)


def told(catalog: Catalog, outbox: Callable[[Lane], Outbox] = changes_of) -> list[str]:
    """The assets whose changes a follower of the leaf lane may read, or the places of dead letters."""
    with psycopg.connect(catalog.url) as connection:
        return [row[3].decode() for row in outbox(Lane.LEAF).read(connection, 0, 1000).told]


def test_what_executors_applied_is_followed_when_their_batch_has_ended(catalog: Catalog) -> None:
    executor = Applier(catalog.url)
    executor.apply_table(chunk(2), stage([table("a"), table("b")]))
    catalog.applier.apply_table(chunk(1), stage([table("c")]))
    executor.close()
    assert set(catalog.rows()) == {"a", "b", "c"}
    assert told(catalog) == []
    catalog.applier.record(batch_of(3, 1, Lane.LEAF))
    assert told(catalog) == ["a", "b", "c"]
    assert catalog.applier.position("assets-leaf") == Position(1, {"0": 3})


def test_a_change_that_is_committed_after_a_later_one_is_told(catalog: Catalog) -> None:
    """It takes its place in the order, then waits for an event that another transaction holds."""
    with ThreadPoolExecutor() as threads, psycopg.connect(catalog.url) as obstacle:
        slow, held = Applier(catalog.url), table("held")
        obstacle.execute(_HELD_CHANGE, [TENANT, held.event_id])
        late = threads.submit(slow.apply_table, chunk(2), stage([table("slow"), held]))
        eventually(lambda: len(catalog.fetch(_WAITING)) == 1)
        catalog.applier.apply_table(chunk(1), stage([table("quick")]))
        assert told(catalog) == []
        obstacle.rollback()
        late.result(30)
        slow.close()
    catalog.applier.record(batch_of(3, 1, Lane.LEAF))
    assert set(told(catalog)) == {"slow", "held", "quick"}


def test_a_dead_letter_that_is_committed_after_a_later_one_is_told(catalog: Catalog) -> None:
    def refused(offset: int, event: Event) -> pa.Table:
        rows = stage([event]).to_pylist()
        letter = rows[0] | {"offset": offset, "reason": "malformed", "detail": "", "payload": b"{"}
        return pa.Table.from_pylist([letter], SCHEMA)

    with ThreadPoolExecutor() as threads, psycopg.connect(catalog.url) as obstacle:
        slow, held = Applier(catalog.url), table("held")
        obstacle.execute(_HELD_CHANGE, [TENANT, held.event_id])
        both = pa.concat_tables([refused(7, table("late")), stage([held])])
        late = threads.submit(slow.apply_table, replace(chunk(2), dead=1), both)
        eventually(lambda: len(catalog.fetch(_WAITING)) == 1)
        catalog.applier.apply_table(replace(chunk(1), dead=1), refused(8, table("quick")))
        assert told(catalog, dead_letters_of) == []
        obstacle.rollback()
        late.result(30)
        slow.close()
    catalog.applier.record(batch_of(3, 1, Lane.LEAF))
    assert [subject[-1] for subject in told(catalog, dead_letters_of)] == ["7", "8"]


def test_a_leader_that_slept_notes_no_batch_that_another_has_noted(catalog: Catalog) -> None:
    catalog.applier.record(batch_of(3, 2, Lane.LEAF))
    catalog.applier.apply_table(chunk(1), stage([table("in-flight")]))
    catalog.applier.record(batch_of(2, 1, Lane.LEAF))
    assert catalog.applier.position("assets-leaf") == Position(2, {"0": 3})
    assert told(catalog) == []


def test_a_chunk_that_is_applied_again_after_a_crash_counts_once(catalog: Catalog) -> None:
    first = stage([table("a"), table("b")])
    catalog.applier.apply_table(chunk(2), first)
    catalog.applier.apply_table(chunk(2), first)
    catalog.applier.record(batch_of(2, 1, Lane.LEAF))
    assert catalog.outcomes() == ["created", "created"]
    assert told(catalog) == ["a", "b"]


def test_executors_that_meet_the_same_events_the_other_way_round_both_come_through(catalog: Catalog) -> None:
    """Each waits for the other, and PostgreSQL ends one of them."""
    events = [table(f"asset-{number}") for number in range(300)]
    chunks = stage(events), stage(events[::-1])
    with ThreadPoolExecutor() as threads:
        appliers = [Applier(catalog.url) for _ in chunks]
        pairs = zip(appliers, chunks, strict=True)
        _raise_errors_of(*[threads.submit(each.apply_table, chunk(300), part) for each, part in pairs])
        for applier in appliers:
            applier.close()
    assert catalog.outcomes() == ["created"] * 300
