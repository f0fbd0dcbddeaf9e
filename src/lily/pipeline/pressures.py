"""Tells when lanes work off a queue, so that whoever may come later gives way to them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: A batch that takes longer than this means that events are queueing.
_LONG_SECONDS = 2.0
_CALM_SECONDS = 3.0
_LOOK_SECONDS = 0.5
#: However busy a lane is, whoever follows it is at most about this far behind when it begins.
MOST_BEHIND_SECONDS = 300.0


class Pressure:
    """What lanes have at hand; a batch of more than `queue` events means that they are queueing."""

    def __init__(self, queue: int) -> None:
        self._queue = queue
        self._busy_at = float("-inf")
        self._batches: dict[object, float] = {}

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """A lane has a batch at hand."""
        batch = object()
        self._batches[batch] = time.monotonic()
        try:
            yield
        finally:
            del self._batches[batch]

    def note(self, events: int) -> None:
        """A batch of so many events was applied."""
        if events > self._queue:
            self._busy_at = time.monotonic()

    @property
    def is_high(self) -> bool:
        now = time.monotonic()
        begun = [*self._batches.values()]  # a copy: lanes change it meanwhile
        return now < self._busy_at + _CALM_SECONDS or any(now > at + _LONG_SECONDS for at in begun)


class Deference:
    """What a follower of a lane does before each step: it gives way to a pressure, but not for ever."""

    def __init__(self, pressure: Pressure | None) -> None:
        self._pressure = pressure
        self._waiting_since: float | None = None

    def give_way(self, stopped: threading.Event) -> None:
        """Return when the pressure is low, or the follower has given way for long enough, or is stopped."""
        while self._pressure is not None and self._pressure.is_high:
            self._waiting_since = self._waiting_since or time.monotonic()
            if time.monotonic() > self._waiting_since + MOST_BEHIND_SECONDS or stopped.wait(_LOOK_SECONDS):
                return

    def caught_up(self) -> None:
        """Nothing is left to do: from now on it may give way again."""
        self._waiting_since = None
