"""Gives every change to the readers of its tenant; what is known of its asset is looked up once for all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import psycopg
import structlog

from lily.access.assets import AssetGuard
from lily.access.decisions import Resource
from lily.domain.changes import Change
from lily.domain.errors import LilyError
from lily.repositories.postgres.announcements import Announcement, Announcements
from lily.serving.live.closings import Closing, closing_of, too_many, too_slow
from lily.serving.live.cursors import Place
from lily.serving.live.feeds import Heard, SharedFeed
from lily.serving.live.readers import Reader, Told

#: Connections of one tenant in one process, and of all: a process has room for calls besides.
MOST_READERS = 200
MOST_OF_ALL = 300
#: Changes of a tenant that wait for what is known of their assets.
_MOST_WAITING = 20_000
_CREDENTIALS = frozenset({"session", "token", "key", "user", "group"})

_log = structlog.get_logger(__name__)


@dataclass
class _Audience:
    """The readers of one tenant, and what they have not been given yet."""

    readers: set[Reader] = field(default_factory=set)
    waiting: list[Told] = field(default_factory=list)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Hub:
    """One per process. A reader sees every change told after it joined, once and in order."""

    def __init__(self, feed: SharedFeed, guard: AssetGuard, announcements: Announcements) -> None:
        self._feed = feed
        self._guard = guard
        self._audiences: dict[str, _Audience] = {}
        self._number = 0
        feed.subscribe(self._hear)
        announcements.subscribe(self._hear_of_access)

    @asynccontextmanager
    async def joined(self, reader: Reader, topic: str) -> AsyncIterator[Place]:
        """Give the reader all that is told from the place on that this tells; `Closing` for one too many."""
        await self._feed.start()
        audience = self._audiences.setdefault(reader.tenant_id, _Audience())
        if len(audience.readers) >= MOST_READERS or self._count() >= MOST_OF_ALL:
            raise too_many()
        reader.joined_at = self._number
        audience.readers.add(reader)
        if audience.task is None:
            audience.task = asyncio.create_task(self._serve(reader.tenant_id, audience))
        try:
            yield self.place(topic)
        finally:
            audience.readers.discard(reader)
            if not audience.readers and audience.task is not None:
                audience.task.cancel()
                self._audiences.pop(reader.tenant_id, None)

    def place(self, topic: str) -> Place:
        """The place after everything heard so far."""
        return Place(topic, dict(self._feed.positions.get(topic, {})))

    def resting_place(self, reader: Reader, topic: str) -> Place | None:
        """The place after all that this reader was given, when nothing is waiting for it."""
        audience = self._audiences.get(reader.tenant_id)
        return self.place(topic) if audience and not audience.waiting and not reader.has_more else None

    async def resources(self, tenant_id: str, changes: Sequence[Change]) -> dict[str, Resource]:
        """What decisions can depend on, of the assets these changes are about; what is gone is left out."""
        subjects = sorted({change.subject for change in changes if change.subject is not None})
        return await self._guard.known_resources(tenant_id, subjects) if subjects else {}

    def _count(self) -> int:
        return sum(len(audience.readers) for audience in self._audiences.values())

    def _hear(self, heard: Sequence[Heard]) -> None:
        places = {topic: dict(offsets) for topic, offsets in self._feed.positions.items()}
        for each in heard:
            places.setdefault(each.topic, {})[each.partition] = each.offset + 1
            self._number += 1
            audience = self._audiences.get(each.change.tenant_id)
            if audience is None:
                continue
            if len(audience.waiting) >= _MOST_WAITING:
                _close_all(audience, too_slow())
                continue
            place = Place(each.topic, dict(places[each.topic]))
            told = Told(each.change, place, each.partition, each.offset, self._number)
            audience.waiting.append(told)
            audience.wake.set()

    async def _serve(self, tenant_id: str, audience: _Audience) -> None:
        while True:
            await audience.wake.wait()
            audience.wake.clear()
            batch = audience.waiting[:1000]
            try:
                resources = await self.resources(tenant_id, [told.change for told in batch])
            except (LilyError, psycopg.Error) as error:
                _log.warning("live_changes_lost", tenant=tenant_id, error=str(error))
                lost = error if isinstance(error, LilyError) else LilyError("the database does not answer")
                _close_all(audience, closing_of(lost))
                audience.waiting.clear()
                continue
            for told in batch:
                for reader in audience.readers:
                    reader.offer(told, resources)
            # Removed only now: whatever is here was not given to the readers yet.
            del audience.waiting[: len(batch)]
            if audience.waiting:
                audience.wake.set()

    def _hear_of_access(self, announcement: Announcement | None) -> None:
        if announcement is not None and announcement.kind not in _CREDENTIALS:
            return
        concerned = [announcement.tenant_id] if announcement else list(self._audiences)
        for tenant_id in concerned:
            for reader in self._audiences.get(tenant_id, _Audience()).readers:
                reader.look_again()


def _close_all(audience: _Audience, closing: Closing) -> None:
    for reader in audience.readers:
        reader.end(closing)
