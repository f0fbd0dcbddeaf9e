"""The bucket that measures what a tenant asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily.domain.tenants import Bucket, Limits


def test_a_second_of_quota_can_be_taken_at_once_and_then_the_rate_rules() -> None:
    bucket = Bucket(10, now=0)
    assert [bucket.take(1, 0) for _ in range(10)] == [0.0] * 10
    assert bucket.take(1, 0) == pytest.approx(0.1)
    assert bucket.take(1, 0.1) == 0.0
    assert bucket.take(1, 0.1) > 0


def test_a_batch_larger_than_the_quota_passes_once_and_is_paid_for() -> None:
    bucket = Bucket(10, now=0)
    assert bucket.take(100, 0) == 0.0
    assert bucket.wait(0) == pytest.approx(9.1)
    assert bucket.take(1, 8.9) > 0
    assert bucket.take(1, 9.2) == 0.0


def test_without_a_rate_everything_passes() -> None:
    bucket = Bucket(0, now=0)
    assert [bucket.take(10**9, 0), bucket.wait(0)] == [0.0, 0.0]


def test_savings_do_not_outlive_a_lower_rate() -> None:
    bucket = Bucket(1000, now=0)
    bucket.set_rate(1, 0)
    assert [bucket.take(1, 0), bucket.take(1, 0) > 0] == [0.0, True]


@given(st.floats(1, 1000), st.lists(st.tuples(st.floats(0, 0.5), st.integers(1, 50)), max_size=80))
def test_over_any_time_no_more_is_granted_than_the_rate_a_second_of_savings_and_one_batch(
    rate: float, asks: list[tuple[float, int]]
) -> None:
    bucket, now, granted = Bucket(rate, 0), 0.0, 0
    for pause, amount in asks:
        now += pause
        if not bucket.take(amount, now):
            granted += amount
    assert granted <= rate * now + rate + 50 + 1e-6


def test_a_limit_that_is_not_set_is_the_default_and_zero_is_a_limit_that_is_set() -> None:
    default = Limits(1, 2, 3, 4)
    assert Limits(None, 0, 7, None).or_default(default) == Limits(1, 0, 7, 4)
