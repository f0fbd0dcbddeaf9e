"""Brings the lake up to date whenever the lanes leave time for it.

A row costs as much processor time in the lake as on its whole way into PostgreSQL. So the lake's queries run
when there is something new and nothing has come for a while, over all there is. They give way to a lane that
works off a queue: a table that is visible now matters more than its history being complete now.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import structlog
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from lily.pipeline.pressures import MOST_BEHIND_SECONDS, Pressure

_log = structlog.get_logger(__name__)

#: How long to collect before a run; an Iceberg commit takes 0.7 to 0.9 s however small it is.
_COLLECT_SECONDS = 5.0
#: It begins only when nothing has come for this long: beside it, a tag took twice as long to spread.
_QUIET_SECONDS = 10.0
_RETRY_SECONDS = 10.0
_LOOK_SECONDS = 1
#: It rests for so many times as long as it ran, and not longer than this: a trickle must not keep it running.
_REST, _LONGEST_REST = 4, 30.0


class Lake:
    """One thread that runs the lake's queries one after the other, each until it has read all there is."""

    def __init__(self, pressure: Pressure) -> None:
        self._pressure = pressure
        self._stopped = threading.Event()
        self._due = threading.Event()
        self._due.set()
        self._active_at = 0.0
        self._failed_at = float("-inf")

    def note(self, events: int) -> None:
        """A batch of so many events was applied, or changes were told."""
        if events:
            self._active_at = time.monotonic()
        self._due.set()

    def failed_after(self, moment: float) -> bool:
        """Whether a run failed later than this moment of the monotonic clock, and none succeeded since."""
        return self._failed_at > moment

    def start(self, queries: Mapping[str, Callable[[], StreamingQuery]]) -> None:
        threading.Thread(target=self._run, args=(queries,), name="lake", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        self._due.set()

    def _run(self, queries: Mapping[str, Callable[[], StreamingQuery]]) -> None:
        waiting_since: float | None = None
        rest = 0.0
        while not self._stopped.is_set():
            self._due.wait()
            waiting_since = waiting_since or time.monotonic()
            latest = waiting_since + MOST_BEHIND_SECONDS
            if self._stopped.wait(max(_COLLECT_SECONDS, rest)) or not self._wait_for_quiet(latest):
                return
            self._due.clear()
            began = time.monotonic()
            done = [self._run_query(name, start, latest) for name, start in queries.items()]
            rest = 0.0
            if all(done):
                waiting_since, self._failed_at = None, float("-inf")
                rest = min(_LONGEST_REST, _REST * (time.monotonic() - began))
            else:
                self._due.set()

    def _wait_for_quiet(self, latest: float) -> bool:
        """Return when no lane is at work, or the lake has waited too long; false when it is stopped."""
        while self._must_yield(latest) or time.monotonic() < min(latest, self._active_at + _QUIET_SECONDS):
            if self._stopped.wait(_LOOK_SECONDS):
                return False
        return not self._stopped.is_set()

    def _run_query(self, name: str, start: Callable[[], StreamingQuery], latest: float) -> bool:
        """Whether the query read all there was; it is stopped when a lane needs the processor."""
        try:
            query = start()
            while not query.awaitTermination(_LOOK_SECONDS):
                if self._must_yield(latest):
                    query.stop()
                    return False
        except PySparkException as error:
            _log.error("query_failed", query=name, error=str(error))
            self._failed_at = time.monotonic()
            time.sleep(_RETRY_SECONDS)
            return False
        return True

    def _must_yield(self, latest: float) -> bool:
        return time.monotonic() < latest and self._pressure.is_high
