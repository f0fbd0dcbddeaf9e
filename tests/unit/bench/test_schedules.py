"""The open-loop schedule."""

from __future__ import annotations

import pytest
from bench.kit.schedules import Schedule, batch_size


@pytest.mark.parametrize(
    ("rate", "size"), [(1, 1), (10, 1), (40, 1), (500, 10), (5000, 100), (10_000, 200), (100_000, 500)]
)
def test_the_batch_suits_the_rate(rate: float, size: int) -> None:
    assert batch_size(rate) == size


def test_a_given_batch_size_is_kept() -> None:
    assert Schedule.of(1000, 10, batch=7).batch == 7


def test_requests_carry_the_events_of_the_whole_time() -> None:
    schedule = Schedule.of(10_000, 120)
    assert schedule.requests * schedule.batch == 1_200_000


def test_requests_are_due_at_even_distances_whatever_happens_to_earlier_ones() -> None:
    schedule = Schedule(rate=1000, seconds=1, batch=100)
    assert [schedule.due(number) for number in range(3)] == [0.0, 0.1, 0.2]


def test_even_the_shortest_run_sends_something() -> None:
    assert Schedule.of(1, 0.1).requests == 1
