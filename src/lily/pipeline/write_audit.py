"""Tells the audit what was written: from the changes of a lane to the chains of their tenants.

Derived from what was applied, so that a write acknowledged by a gateway that died right after is in the audit
all the same. Each change is told once: the position is written with the entries.
"""

from __future__ import annotations

import threading

import psycopg

from lily.domain.assets import Lane
from lily.pipeline.followers import Follower
from lily.pipeline.pressures import Deference, Pressure
from lily.repositories.postgres.audit_chains import AuditChains
from lily.repositories.postgres.written import not_yet_told, read_writes
from lily.settings import Settings

_MOST = 10_000
#: One round costs a transaction, whatever it tells: not after every batch of the lane.
_PAUSE_SECONDS = 0.5
_IDLE_SECONDS = 5.0
#: The audit may follow a moment later: it yields the processor to everything else.
_NICE = 15


class WriteAudit:
    """One thread per lane, woken after every batch; with a pressure it gives way to that."""

    def __init__(
        self, settings: Settings, shared: Settings, lane: Lane, pressure: Pressure | None = None
    ) -> None:
        self._url = settings.database.url.get_secret_value()
        self._shared_url = shared.database.url.get_secret_value()
        self._source = f"{settings.kafka.topic_prefix}changes-{lane.value}"
        self._chains = AuditChains(settings.audit.key.get_secret_value())
        self._lane = lane
        self._deference = Deference(pressure)
        self._wake = threading.Event()
        self._follower = Follower("audit", self._follow, (psycopg.Error,), lane.value, _NICE)

    def start(self) -> None:
        self._follower.start()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._follower.stopped.set()
        self._wake.set()

    def _follow(self) -> None:
        """The audit of all cells is in the shared cell's database."""
        with (
            psycopg.connect(self._url, autocommit=True) as changes,
            psycopg.connect(self._shared_url, autocommit=True) as audit,
        ):
            while not self._follower.stopped.is_set():
                self._wake.clear()
                self.catch_up(changes, audit)
                self._wake.wait(_IDLE_SECONDS)
                self._follower.stopped.wait(_PAUSE_SECONDS)

    def catch_up(self, changes: psycopg.Connection, audit: psycopg.Connection) -> None:
        """Tell every change there is."""
        position: int | None = self._chains.taken(audit, self._source)
        while position is not None:
            self._deference.give_way(self._follower.stopped)
            entries, position = read_writes(changes, self._lane, position, _MOST)
            if position is not None:
                if self._url != self._shared_url:
                    entries = not_yet_told(audit, entries)
                self._chains.add(audit, entries, self._source, position)
        self._deference.caught_up()
