"""One reader of changes: what it asked for, and the bounded number of changes that wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from lily.access.decisions import Resource
from lily.domain.changes import Change
from lily.serving.live.closings import Closing, too_slow
from lily.serving.live.cursors import Place
from lily.serving.live.subscriptions import Filters

#: What a burst may leave waiting; the changes themselves are shared by all readers they wait for.
MOST_WAITING = 10_000


@dataclass(frozen=True, slots=True)
class Told:
    """A change, the place after it, where it stands, and its number among all this process has heard."""

    change: Change
    place: Place
    partition: int
    offset: int
    number: int = 0


@dataclass(frozen=True, slots=True)
class Offered:
    """A change a reader asked for; `resource` is None when Lily knows the asset no more, or never did."""

    told: Told
    resource: Resource | None


class Reader:
    """Takes what it is offered and never makes anybody wait: one that falls behind is ended."""

    def __init__(self, tenant_id: str, filters: Filters) -> None:
        self.tenant_id = tenant_id
        self.filters = filters
        self.joined_at = 0
        #: The offsets up to which this reader was served already: before it came here, or while it caught up.
        self.served: Mapping[int, int] = {}
        self._waiting: asyncio.Queue[Offered | None] = asyncio.Queue()
        self._closing: Closing | None = None

    @property
    def has_more(self) -> bool:
        return not self._waiting.empty()

    def offer(self, told: Told, resources: Mapping[str, Resource]) -> None:
        """Keep the change if it came after the reader and is what it asked for."""
        if told.number <= self.joined_at:
            return
        offered = self.wanted(told, resources)
        if offered is None:
            return
        if self._waiting.qsize() >= MOST_WAITING:
            self.end(too_slow())
        elif self._closing is None:
            self._waiting.put_nowait(offered)

    def wanted(self, told: Told, resources: Mapping[str, Resource]) -> Offered | None:
        resource = resources.get(told.change.subject or "")
        blank = Resource(self.tenant_id, id=told.change.subject or "")
        return Offered(told, resource) if self.filters.match(told.change, resource or blank) else None

    def look_again(self) -> None:
        """Have the reader's credential looked at, also while nothing is told."""
        if not self.has_more:
            self._waiting.put_nowait(None)

    def end(self, closing: Closing) -> None:
        """Close the connection as soon as possible, whatever is waiting."""
        self._closing = self._closing or closing
        self.look_again()

    async def next(self, seconds: float) -> Offered | None:
        """The next change; None after that time, or to look at something. `Closing` at the end."""
        try:
            offered = await asyncio.wait_for(self._waiting.get(), seconds) if seconds > 0 else None
        except TimeoutError:
            offered = None
        if self._closing is not None:
            raise self._closing
        if offered is not None and offered.told.offset < self.served.get(offered.told.partition, 0):
            return None
        return offered
