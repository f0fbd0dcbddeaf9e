"""When the lake's queries run: not beside lanes at work, and never too late."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kit.eventually import eventually
from lily.pipeline import lake as lake_module
from lily.pipeline import pressures
from lily.pipeline.lake import Lake
from lily.pipeline.pressures import Pressure

QUIET = 0.2


class Query:
    """A query that has read all there is as soon as it is let."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.may_end = threading.Event()
        self.was_stopped = False
        self.looks = 0

    def awaitTermination(self, seconds: float) -> bool:
        self.looks += 1
        return self.may_end.wait(seconds)

    def stop(self) -> None:
        self.was_stopped = True


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {
        "_COLLECT_SECONDS": 0.01,
        "_QUIET_SECONDS": QUIET,
        "_LOOK_SECONDS": 0.01,
        "_LONGEST_REST": 0.0,
        "MOST_BEHIND_SECONDS": 60.0,
    }.items():
        monkeypatch.setattr(lake_module, name, seconds)
    monkeypatch.setattr(pressures, "_CALM_SECONDS", 0.1)
    monkeypatch.setattr(pressures, "_LONG_SECONDS", 0.05)


@pytest.fixture
def runs() -> list[Query]:
    return []


@pytest.fixture
def pressure() -> Pressure:
    return Pressure(500)


@pytest.fixture
def lake(runs: list[Query], pressure: Pressure) -> Iterator[Lake]:
    lake = Lake(pressure)

    def start() -> Any:
        runs.append(Query())
        return runs[-1]

    lake.note(1)
    lake.start({"history": start})
    yield lake
    lake.stop()
    for query in runs:
        query.may_end.set()


def test_it_begins_when_nothing_has_come_for_a_while(lake: Lake, runs: list[Query]) -> None:
    noted = time.monotonic()
    lake.note(1)
    eventually(lambda: len(runs) == 1)
    assert runs[0].began >= noted + QUIET


@pytest.mark.usefixtures("lake")
def test_a_batch_that_takes_long_stops_it_and_it_begins_again_afterwards(
    runs: list[Query], pressure: Pressure
) -> None:
    eventually(lambda: len(runs) == 1)
    with pressure.at_work():
        eventually(lambda: runs[0].was_stopped)
        ended = time.monotonic()
    eventually(lambda: len(runs) == 2)
    assert runs[1].began >= ended


@pytest.mark.usefixtures("lake")
def test_a_queue_stops_it_but_a_few_events_do_not(runs: list[Query], pressure: Pressure) -> None:
    eventually(lambda: len(runs) == 1)
    pressure.note(10)
    looks = runs[0].looks
    eventually(lambda: runs[0].looks > looks + 3)
    assert not runs[0].was_stopped
    pressure.note(10_000)
    eventually(lambda: runs[0].was_stopped)


def test_however_busy_the_lanes_are_it_does_not_wait_for_ever(
    lake: Lake, runs: list[Query], pressure: Pressure, monkeypatch: pytest.MonkeyPatch
) -> None:
    eventually(lambda: len(runs) == 1)
    runs[0].may_end.set()
    monkeypatch.setattr(lake_module, "MOST_BEHIND_SECONDS", 0.0)
    monkeypatch.setattr(lake_module, "_QUIET_SECONDS", 600.0)
    with pressure.at_work():
        lake.note(10_000)
        eventually(lambda: len(runs) == 2)


def test_a_rest_before_does_not_count_as_waiting(
    lake: Lake, runs: list[Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_module, "MOST_BEHIND_SECONDS", 0.5)
    monkeypatch.setattr(lake_module, "_QUIET_SECONDS", 0.6)
    eventually(lambda: len(runs) == 1)
    runs[0].may_end.set()
    rested_until = time.monotonic() + 0.6
    eventually(lambda: time.monotonic() > rested_until)
    noted = time.monotonic()
    lake.note(10_000)
    eventually(lambda: len(runs) == 2)
    assert runs[1].began >= noted + 0.45
