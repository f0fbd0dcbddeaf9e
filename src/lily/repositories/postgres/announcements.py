"""Tells every process what has changed about who may do what, and tells the one who changed it when all know.

A change is announced by `NOTIFY lily_access` in its own transaction. Whoever remembers something about access
listens, and holds a lease that it renews over the very connection it listens on. `wait_until_heard` calls a
round after the change was committed: a process that heard the round has heard the change before it, and one
that did not renew its lease meanwhile no longer relies on what it remembers. So when it returns, nobody
still acts on what was true before.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import psycopg
import structlog

from lily.domain.errors import Unavailable
from lily.repositories.postgres.pool import CONNECT_SECONDS, Database, connection_arguments
from lily.repositories.postgres.queries import load
from lily.repositories.postgres.tasks import beside

CHANNEL = "lily_access"
#: So long can a process that lost its connection delay whoever changes something; and nobody relies on what
#: was true before for longer.
LEASE_SECONDS = 1.0
#: Clocks may run at different speeds: so much earlier a process stops relying on its lease.
_MARGIN_SECONDS = 0.1
_RENEW_SECONDS = 0.25
_RECONNECT_SECONDS = 0.2
_ROUND = "round"
_QUERIES = load("announcements.sql")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Announcement:
    """What changed: `kind` is user, group, session, token, key, role, policy …; `key` names it."""

    kind: str
    tenant_id: str
    key: str


#: None says that announcements may have been missed: anything may have changed.
Hearing = Callable[[Announcement | None], None]


class Announcements:
    """One listener per process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._listener = uuid4()
        self._hearers: list[Hearing] = []
        self._heard = 0
        self._valid_until = 0.0
        self._leased = asyncio.Event()
        #: Grows with everything heard: what was read under an older number must not be remembered.
        self.generation = 0

    def subscribe(self, hear: Hearing) -> None:
        """Call `hear` with every announcement from now on, on the event loop."""
        self._hearers.append(hear)

    def is_current(self) -> bool:
        """Whether what this process remembers may be relied on; otherwise the database must be asked."""
        return time.monotonic() < self._valid_until

    async def wait_until_heard(self) -> None:
        """Return when no process relies any more on what was true before the changes committed so far."""
        [(number, _)] = await self._database.fetch(_QUERIES["call_round"], {})
        deadline = time.monotonic() + 2 * LEASE_SECONDS
        pause = 0.002
        while await self._deaf(number):
            if time.monotonic() > deadline:
                raise Unavailable("the change is made, but not every gateway has confirmed it; try again")
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.05)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen while the context is open; it opens with a lease, or when PostgreSQL had its time."""
        try:
            async with beside(self._listen()):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._leased.wait(), CONNECT_SECONDS)
                yield
        finally:
            self._valid_until = 0.0
            with suppress(Unavailable, psycopg.Error):
                await self._database.fetch(_QUERIES["remove_listener"], {"listener": self._listener})

    async def _deaf(self, number: int) -> bool:
        [(count,)] = await self._database.fetch(_QUERIES["count_deaf"], {"round": number})
        return bool(count)

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_until_lost()
            except (psycopg.Error, OSError, TimeoutError) as error:
                _log.warning("announcements_lost", error=type(error).__name__)
            self._valid_until = 0.0
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen_until_lost(self) -> None:
        connection = await psycopg.AsyncConnection.connect(self._database.url, **connection_arguments())
        async with connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            await connection.execute(_QUERIES["forget_listeners"])
            self._tell(None)
            await self._renew(connection, "register_listener")
            while True:
                async for notice in connection.notifies(timeout=_RENEW_SECONDS, stop_after=1):
                    self._hear(notice.payload)
                await self._renew(connection, "renew_lease")

    async def _renew(self, connection: psycopg.AsyncConnection[Any], query: str) -> None:
        asked = time.monotonic()
        values = {"listener": self._listener, "heard": self._heard, "seconds": LEASE_SECONDS}
        async with asyncio.timeout(LEASE_SECONDS):
            cursor = await connection.execute(_QUERIES[query], values)
            row = await cursor.fetchone()
        if row is None:
            raise psycopg.OperationalError("the lease was taken away")
        heard, newest = row
        self._heard = max(self._heard, heard)
        # A round not heard yet is on its way, and its caller may have given this process up already.
        if self._heard >= newest:
            self._valid_until = asked + LEASE_SECONDS - _MARGIN_SECONDS
            self._leased.set()

    def _hear(self, payload: str) -> None:
        try:
            announcement = Announcement(*json.loads(payload))
        except (ValueError, TypeError):  # somebody else's words on our channel
            self._tell(None)
            return
        if announcement.kind == _ROUND:
            self._heard = max(self._heard, int(announcement.key))
        else:
            self._tell(announcement)

    def _tell(self, announcement: Announcement | None) -> None:
        self.generation += 1
        for hear in self._hearers:
            hear(announcement)
