"""The join of accepted and visible events, and the figures made of it."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pytest
from bench.kit.latencies import Receipts, Sightings, join, percentiles

from lily.domain.event_ids import members, new_batch_id


def receipts(*batches: UUID, accepted: float = 1.0) -> Receipts:
    sizes = np.array([len(list(members(batch))) for batch in batches], dtype=np.int64)
    times = accepted + np.arange(len(batches), dtype=np.float64)
    return Receipts(b"".join(batch.bytes for batch in batches), sizes, times - 0.5, times)


def sightings(*looks: tuple[float, list[UUID]]) -> Sightings:
    ids = b"".join(event.bytes for _, events in looks for event in events)
    counts = np.array([len(events) for _, events in looks], dtype=np.int64)
    return Sightings(ids, np.array([at for at, _ in looks], dtype=np.float64), counts)


def test_every_event_is_as_old_as_the_look_that_saw_it_first() -> None:
    one, two = new_batch_id(1, 3), new_batch_id(2, 2)
    of_one, of_two = list(members(one)), list(members(two))
    joined = join(
        receipts(one, two), sightings((3.0, [of_two[0], *of_one[:2]]), (4.0, [of_one[2], of_two[1]]))
    )
    assert joined.visible.tolist() == [3.0, 3.0, 4.0, 3.0, 4.0]
    assert joined.accepted.tolist() == [1.0, 1.0, 1.0, 2.0, 2.0]
    assert (joined.unseen, joined.seen_again) == (0, 0)


def test_an_event_never_seen_is_missed() -> None:
    batch = new_batch_id(1, 3)
    joined = join(receipts(batch), sightings((2.0, list(members(batch))[1:])))
    assert joined.unseen == 1
    assert np.isnan(joined.visible[0])


def test_an_event_seen_again_is_counted_and_keeps_its_first_time() -> None:
    batch = new_batch_id(1, 2)
    first, second = members(batch)
    joined = join(receipts(batch), sightings((2.0, [first]), (3.0, [second, first])))
    assert joined.seen_again == 1
    assert joined.visible.tolist() == [2.0, 3.0]


def test_events_of_others_are_passed_over() -> None:
    batch, foreign = new_batch_id(1, 1), new_batch_id(1, 500)
    joined = join(receipts(batch), sightings((2.0, [*members(foreign), *members(batch)])))
    assert joined.visible.tolist() == [2.0]
    assert joined.seen_again == 0


def test_nothing_seen_is_all_missed() -> None:
    assert join(receipts(new_batch_id(1, 4)), sightings()).unseen == 4


def test_nothing_accepted_joins_to_nothing() -> None:
    joined = join(receipts(), sightings((2.0, list(members(new_batch_id(1, 4))))))
    assert len(joined.visible) == 0


def test_two_requests_with_one_id_are_refused() -> None:
    batch = new_batch_id(1, 2)
    with pytest.raises(ValueError, match="same event id"):
        join(receipts(batch, batch), sightings())


def test_a_span_holds_the_events_due_in_it() -> None:
    batches = [new_batch_id(ms, 1) for ms in range(4)]
    joined = join(
        receipts(*batches), sightings((9.0, [event for batch in batches for event in members(batch)]))
    )
    assert joined.between(1.5, 3.5).accepted.tolist() == [2.0, 3.0]


def test_percentiles_leave_out_what_was_never_seen() -> None:
    assert percentiles(np.array([1.0, np.nan, 3.0])) == {"p50_s": 2.0, "p99_s": 2.98, "max_s": 3.0}


def test_no_values_have_no_percentiles() -> None:
    assert percentiles(np.array([])) == {"p50_s": None, "p99_s": None, "max_s": None}
