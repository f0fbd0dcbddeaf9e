"""Who follows a lane gives way to it while it works off a queue, but not for ever."""

from __future__ import annotations

import threading
import time

import pytest

from kit.eventually import eventually
from lily.pipeline import pressures
from lily.pipeline.pressures import Deference, Pressure


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pressures, "_LONG_SECONDS", 0.05)
    monkeypatch.setattr(pressures, "_CALM_SECONDS", 0.2)
    monkeypatch.setattr(pressures, "_LOOK_SECONDS", 0.01)


def test_few_events_are_no_queue() -> None:
    pressure = Pressure(queue=10)
    pressure.note(10)
    assert not pressure.is_high
    pressure.note(11)
    assert pressure.is_high


def test_a_batch_that_takes_long_means_that_events_queue_until_it_ends() -> None:
    pressure = Pressure(queue=10)
    with pressure.at_work():
        assert not pressure.is_high
        eventually(lambda: pressure.is_high)
    assert not pressure.is_high


def test_a_follower_waits_until_the_queue_is_worked_off() -> None:
    pressure = Pressure(queue=10)
    pressure.note(11)
    began = time.monotonic()
    Deference(pressure).give_way(threading.Event())
    assert time.monotonic() >= began + 0.19


def test_a_follower_gives_way_for_a_limited_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pressures, "MOST_BEHIND_SECONDS", 0.05)
    monkeypatch.setattr(pressures, "_CALM_SECONDS", 600.0)
    pressure = Pressure(queue=10)
    pressure.note(11)
    deference = Deference(pressure)
    deference.give_way(threading.Event())
    began = time.monotonic()
    deference.give_way(threading.Event())  # what it has begun it finishes
    assert time.monotonic() < began + 0.04
    deference.caught_up()
    deference.give_way(threading.Event())
    assert time.monotonic() >= began + 0.05


def test_a_follower_that_is_stopped_waits_no_longer() -> None:
    pressure, stopped = Pressure(queue=10), threading.Event()
    pressure.note(11)
    stopped.set()
    began = time.monotonic()
    Deference(pressure).give_way(stopped)
    assert time.monotonic() < began + 0.15
