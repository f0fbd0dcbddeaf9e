"""Dispatchers that are killed: all is told, in order, and what is told twice has one id."""

from __future__ import annotations

from kit.dispatchers import Trial, run_trial
from lily.settings import Settings


def test_with_four_dispatchers_killed_at_random_all_is_told_in_order(settings: Settings) -> None:
    """One short run; `./lily bench deliveries --runs 20` is the long one."""
    outcome = run_trial(settings, Trial(kills=3, changes=120, rules=3))
    assert outcome.holds, outcome
    assert outcome.deliveries == 360
