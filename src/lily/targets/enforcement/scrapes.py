"""Has a database scraped when its tables change: what is new there may be made of what is protected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog
from confluent_kafka import KafkaException

from lily.domain.errors import LilyError
from lily.repositories.postgres.queries import load
from lily.targets.enforcement.connections import fetch
from lily.targets.enforcement.targets import Access, Target

#: However often its tables change, a database is not scraped oftener than this.
SCRAPE_SECONDS = 30.0

#: Order a job for a tenant's connector.
OrderScrape = Callable[[str, str], Awaitable[object]]

_CONTROL = load("enforcement_control.sql")
_log = structlog.get_logger(__name__)


class ScrapeOrders:
    """For one database. Its shape when a job was ordered last is kept there, so that nothing is missed while
    nobody looks."""

    def __init__(self, access: Access, order: OrderScrape) -> None:
        self._access = access
        self._order = order
        self._is_due = True
        self._ordering: asyncio.Task[str | None] | None = None
        self._ordered_at = float("-inf")

    def tell_disturbed(self) -> None:
        """Somebody changed something, maybe a table."""
        self._is_due = True

    async def look(self, target: Target) -> None:
        """Order a job if tables, columns or views are not what they were; it is not waited for."""
        if self._ordering is not None:
            if not self._ordering.done():
                return
            shape, self._ordering = self._ordering.result(), None
            if shape is not None:
                await asyncio.to_thread(fetch, target.connection, _CONTROL["keep_shape"], {"shape": shape})
        if not self._is_due or time.monotonic() - self._ordered_at < SCRAPE_SECONDS:
            return
        self._is_due = False
        [(shape, kept)] = await asyncio.to_thread(fetch, target.connection, _CONTROL["read_shape"])
        if shape != kept:
            self._ordered_at = time.monotonic()
            self._ordering = asyncio.create_task(self._order_for(shape))

    async def close(self) -> None:
        """Order nothing any more."""
        if self._ordering is not None:
            self._ordering.cancel()
            await asyncio.gather(self._ordering, return_exceptions=True)
            self._ordering, self._is_due = None, True

    async def _order_for(self, shape: str) -> str | None:
        """The shape, once the job is ordered."""
        try:
            await self._order(self._access.tenant_id, self._access.connector_id)
        except (LilyError, KafkaException) as error:
            _log.warning("scrape_not_ordered", connector_id=self._access.connector_id, error=str(error))
            self._is_due = True
            return None
        return shape
