"""When a message is tried again."""

from __future__ import annotations

import pytest

from lily.domain.deliveries import JITTER, MOST_HELD, PAUSES, Outcome, Receipt, delivery_id, pause_after


def test_pauses_grow_as_the_specification_says_and_then_end() -> None:
    assert PAUSES == (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)
    middle = [pause_after(failures, 0.5) for failures in range(1, 11)]
    assert middle == [*PAUSES, None]


@pytest.mark.parametrize("failures", range(1, 10))
def test_chance_moves_a_pause_by_a_fifth_at_most(failures: int) -> None:
    shortest, longest = pause_after(failures, 0.0), pause_after(failures, 1.0)
    assert shortest == pytest.approx(PAUSES[failures - 1] * (1 - JITTER))
    assert longest == pytest.approx(PAUSES[failures - 1] * (1 + JITTER))


def test_what_the_target_asks_for_is_the_least_within_reason() -> None:
    assert pause_after(1, 0.5, 120.0) == 120.0
    assert pause_after(2, 0.5, 10.0) == 300.0
    assert pause_after(1, 0.5, 7200.0) == 7200.0, "a target knows best when it is back"
    assert pause_after(1, 0.5, 10**9) == MOST_HELD == 86_400


def test_only_an_answer_that_says_when_is_no_failure() -> None:
    assert Receipt(Outcome.FAILED, "", 429, retry_after=1.0).is_throttled
    assert not Receipt(Outcome.FAILED, "", 429).is_throttled
    assert not Receipt(Outcome.FAILED, "", 500, retry_after=1.0).is_throttled


def test_ids_do_not_run_together() -> None:
    assert delivery_id("a", "bc", "d") != delivery_id("ab", "c", "d")
