"""Tells when events have become visible: one listener and one question for all who wait in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from uuid import UUID

import psycopg
import structlog

from lily.domain.errors import NotVisibleYet, Unavailable
from lily.domain.event_ids import last_member, members, size_of
from lily.repositories.postgres.pool import Database, connection_arguments
from lily.repositories.postgres.queries import load
from lily.repositories.postgres.tasks import beside

CHANNEL = "lily_applied"
#: How often those who wait are looked after although nobody notified us.
_SAFETY_NET_SECONDS = 0.25
_RECONNECT_SECONDS = 0.5
_QUERIES = load("assets.sql")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Settlement:
    """What came of a batch: `outcome` is exact for a batch of one, `dead` counts its dead letters."""

    outcome: str
    dead: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """An event of a batch that became a dead letter."""

    index: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class _Waiter:
    tenant_id: str
    event_id: UUID
    follow: bool  # wait for what follows from it, too
    settled: asyncio.Future[Settlement]


class Visibility:
    """Settles the futures of all waiters of this process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiters: dict[int, _Waiter] = {}
        self._tickets = count()
        self._someone_waits = asyncio.Event()
        self._look = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen and look while the context is open."""
        async with beside(self._listen(), self._settle_forever()):
            yield

    async def settled(self, tenant_id: str, event_id: UUID, follow: bool = False) -> Settlement | None:
        """What came of the batch, if all of it (`follow`: and all that follows from it) is visible by now."""
        waiter = _Waiter(tenant_id, event_id, follow, asyncio.get_running_loop().create_future())
        return (await self._ask({0: waiter})).get(0)

    async def wait(self, tenant_id: str, event_id: UUID, seconds: float, follow: bool = False) -> Settlement:
        """What came of the batch, as soon as all of it is visible; `NotVisibleYet` after that time."""
        ticket = next(self._tickets)
        waiter = _Waiter(tenant_id, event_id, follow, asyncio.get_running_loop().create_future())
        self._waiters[ticket] = waiter
        self._someone_waits.set()
        try:
            return await asyncio.wait_for(waiter.settled, seconds)
        except TimeoutError:
            raise NotVisibleYet(
                f"the event {event_id} is not visible after {seconds:g} s; once accepted, it will be: "
                "ask again, or wait longer with Prefer: wait=30",
                event_id=str(event_id),
            ) from None
        finally:
            self._waiters.pop(ticket, None)

    async def refusals(self, tenant_id: str, event_id: UUID) -> list[Refusal]:
        """The dead letters of a batch, each at the position of its event."""
        first, last = next(members(event_id)), last_member(event_id)
        rows = await self._database.fetch(
            _QUERIES["list_dead_letters"], {"tenant_id": tenant_id, "first": first, "last": last}
        )
        by_index = {UUID(row[0]).int - first.int: row for row in rows}
        return [Refusal(index, row[1], row[2]) for index, row in sorted(by_index.items())]

    async def _listen(self) -> None:
        while True:
            with suppress(psycopg.Error, OSError):
                await self._listen_until_lost()
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen_until_lost(self) -> None:
        connection = await psycopg.AsyncConnection.connect(self._database.url, **connection_arguments())
        async with connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            async for _ in connection.notifies():
                self._look.set()

    async def _settle_forever(self) -> None:
        while True:
            if not self._waiters:
                self._someone_waits.clear()
                await self._someone_waits.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(_SAFETY_NET_SECONDS):
                    await self._look.wait()
            self._look.clear()
            await self._settle_once()

    async def _settle_once(self) -> None:
        waiters = dict(self._waiters)
        try:
            settlements = await self._ask(waiters) if waiters else {}
        except (Unavailable, psycopg.Error) as error:
            _log.warning("visibility_unknown", error=str(error))
            return
        for ticket, settlement in settlements.items():
            if not waiters[ticket].settled.done():
                waiters[ticket].settled.set_result(settlement)

    async def _ask(self, waiters: dict[int, _Waiter]) -> dict[int, Settlement]:
        rows = await self._database.fetch(
            _QUERIES["count_settled"],
            {
                "tickets": list(waiters),
                "tenants": [waiter.tenant_id for waiter in waiters.values()],
                "firsts": [next(members(waiter.event_id)) for waiter in waiters.values()],
                "lasts": [last_member(waiter.event_id) for waiter in waiters.values()],
                "follow": [waiter.follow for waiter in waiters.values()],
            },
        )
        return {
            ticket: Settlement(outcome or "", dead, reason or "", detail or "")
            for ticket, applied, dead, outcome, reason, detail in rows
            if applied + dead >= size_of(waiters[ticket].event_id)
        }
