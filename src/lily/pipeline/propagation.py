"""Follows every batch of every lane: what it means for the tags of assets downstream is made effective.

One thread. It reads what changed from the database itself, in the order of the changes (a hop through
`metadata-changes` and another micro-batch would double the delay), and remembers how far it is in the
transaction of what it did: a crash repeats nothing and forgets nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg
import structlog

from lily.pipeline.followers import Follower
from lily.repositories.postgres.propagator import LISTEN, Done, Propagator
from lily.settings import Settings
from lily.telemetry import PROPAGATED, PROPAGATION_PROGRESS, PROPAGATION_SECONDS

_log = structlog.get_logger(__name__)

_IDLE_SECONDS = 1.0


class Propagation:
    """`after_run` is called when tags of some asset have changed."""

    def __init__(self, settings: Settings, after_run: Callable[[], None]) -> None:
        self._url = settings.database.url.get_secret_value()
        self._after_run = after_run
        self._propagator = Propagator(self._url, self._report)
        self._follower = Follower("propagation", self._follow, (psycopg.Error,))

    def start(self) -> None:
        self._follower.start()

    def stop(self) -> None:
        self._follower.stopped.set()

    def _follow(self) -> None:
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                connection.execute(LISTEN)
                while not self._follower.stopped.is_set():
                    self.catch_up()
                    for _ in connection.notifies(timeout=_IDLE_SECONDS, stop_after=1):
                        pass
        finally:
            self._propagator.close()

    def catch_up(self) -> None:
        """Run until nothing is left to follow up."""
        while (done := self._timed()) is not None:
            PROPAGATED.inc(done.told)
            if done.told:
                self._after_run()

    def _timed(self) -> Done | None:
        started = time.perf_counter()
        done = self._propagator.run()
        PROPAGATION_PROGRESS.set(0)
        if done is not None:
            PROPAGATION_SECONDS.observe(time.perf_counter() - started)
        return done

    def _report(self, added: int) -> None:
        PROPAGATION_PROGRESS.inc(added)
        _log.info("propagation_under_way", added=added)
