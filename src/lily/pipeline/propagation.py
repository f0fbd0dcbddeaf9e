"""Follows every batch of every lane: what it means for the tags of assets downstream is made effective.

Two threads: one for all tenants together, one for those with so much to do that others would wait for them.
They read what changed from the database itself, in the order of the changes (a hop through `metadata-changes`
and another micro-batch would double the delay), and remember how far they are in the transaction of what they
did: a crash repeats nothing and forgets nothing.
"""

from __future__ import annotations

import threading
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
_TURN_SECONDS = 0.05


class Propagation:
    """`after_run` is called when tags of some asset have changed."""

    def __init__(self, settings: Settings, after_run: Callable[[], None]) -> None:
        self._url = settings.database.url.get_secret_value()
        self._after_run = after_run
        self._together = Propagator(self._url, _report)
        self._alone = Propagator(self._url, _report)
        self._someone_is_apart = threading.Event()
        self._followers = (
            Follower("propagation", self._follow, (psycopg.Error,)),
            Follower("propagation-apart", self._follow_apart, (psycopg.Error,)),
        )

    def start(self) -> None:
        for follower in self._followers:
            follower.start()

    def stop(self) -> None:
        for follower in self._followers:
            follower.stopped.set()
        self._someone_is_apart.set()

    def _follow(self) -> None:
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                connection.execute(LISTEN)
                while not self._followers[0].stopped.is_set():
                    self.catch_up()
                    for _ in connection.notifies(timeout=_IDLE_SECONDS, stop_after=1):
                        pass
        finally:
            self._together.close()

    def catch_up(self) -> None:
        """Run until nothing is left to follow up."""
        done: Done | None = Done(0, 0)
        while done is not None:
            self._tell(done)
            done = self._timed(self._together.run)
            if self._together.has_apart:
                self._someone_is_apart.set()

    def _follow_apart(self) -> None:
        """Sleep while no tenant is followed by itself."""
        try:
            while True:
                self._someone_is_apart.clear()
                if self._followers[1].stopped.is_set():
                    return
                done = self._timed(self._alone.run_apart)
                if done is None:
                    self._alone.close()
                    self._someone_is_apart.wait()
                elif done.told:
                    self._tell(done)
                else:  # it waits for its turn to rejoin the others
                    self._followers[1].stopped.wait(_TURN_SECONDS)
        finally:
            self._alone.close()

    def _tell(self, done: Done) -> None:
        PROPAGATED.inc(done.told)
        if done.told or done.passed_on:
            self._after_run()

    def _timed(self, run: Callable[[], Done | None]) -> Done | None:
        started = time.perf_counter()
        done = run()
        PROPAGATION_PROGRESS.set(0)
        if done is not None:
            PROPAGATION_SECONDS.observe(time.perf_counter() - started)
        return done


def _report(tenant_id: str, facts: int) -> None:
    PROPAGATION_PROGRESS.inc(facts)
    _log.info("propagation_under_way", tenant_id=tenant_id, facts=facts)
