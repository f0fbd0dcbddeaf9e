"""Reads again what was told between a cursor and now, for a reader that comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress

from confluent_kafka import KafkaException

from lily.domain.changes import Change, read_change
from lily.domain.errors import Unavailable
from lily.log.bounds import LogBounds
from lily.log.changes import ChangeFeed, ChangeRecord
from lily.serving.live.closings import too_old
from lily.serving.live.cursors import Place
from lily.serving.live.feeds import SharedFeed
from lily.serving.live.readers import Told
from lily.settings import KafkaSettings

#: Records of all tenants of the cell: beyond, reading the catalog anew is quicker than reading them.
MOST_BEHIND = 200_000
_PATIENCE_SECONDS = 30.0
#: So many readers of a process catch up at a time.
_AT_ONCE = 4


class CatchingUp:
    def __init__(self, settings: KafkaSettings, feed: SharedFeed) -> None:
        self._settings = settings
        self._bounds = LogBounds(settings, patience_seconds=10.0)
        self._feed = feed
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._asking = asyncio.Semaphore(_AT_ONCE)

    async def end(self, here: Place) -> Place:
        """Where the log ends now: what is told is not always heard yet."""
        async with self._asking:  # a silent broker keeps a thread for each who asks
            found = await asyncio.to_thread(self._bounds.ends, {here.topic: here.offsets})
        ends = found.get(here.topic, {})
        return Place(
            here.topic, {each: max(offset, ends.get(each, 0)) for each, offset in here.offsets.items()}
        )

    async def between(self, tenant_id: str, start: Place, end: Place) -> AsyncGenerator[list[Told], None]:
        """What the tenant was told from one place to the other, in batches; `Closing` when it is not kept."""
        if start.topic != end.topic or _behind(start, end) > MOST_BEHIND:
            raise too_old()
        if start.offsets == end.offsets:
            return
        async with self._turns:
            await asyncio.to_thread(self._check_kept, start, end)
            feed = await self._open(start)
            try:
                async for told in _read(feed, tenant_id, start, end):
                    yield told
            finally:
                await asyncio.to_thread(feed.close)

    def _check_kept(self, start: Place, end: Place) -> None:
        """Every offset asked for must still be there, or be the next; else something would be left out.

        Another process may be ahead of this one; nobody is ahead of the log.
        """
        places = {end.topic: end.offsets}
        begins = self._bounds.begins(places).get(end.topic, {})
        ends = self._bounds.ends(places).get(end.topic, {})
        for partition in end.offsets:
            if not begins.get(partition, 0) <= start.offsets.get(partition, 0) <= ends.get(partition, -1):
                raise too_old()

    async def _open(self, start: Place) -> ChangeFeed:
        """At the start's place; of other topics, which are not asked for, from where the others are read."""
        positions = {**self._feed.positions, start.topic: start.offsets}
        try:
            return await asyncio.to_thread(ChangeFeed.alone, self._settings, positions)
        except KafkaException as error:
            raise Unavailable(f"the log cannot be read ({error}); try again", part="kafka") from error


async def _read(
    feed: ChangeFeed, tenant_id: str, start: Place, end: Place
) -> AsyncGenerator[list[Told], None]:
    offsets, loop = dict(start.offsets), asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_SECONDS
    while _behind(Place(end.topic, offsets), end):
        records = await asyncio.to_thread(feed.poll, 0.5)
        told = []
        for record in records:
            if record.topic == end.topic and record.offset < end.offsets.get(record.partition, 0):
                offsets[record.partition] = record.offset + 1
                if change := _change(record, tenant_id):
                    place = Place(end.topic, dict(offsets))
                    told.append(Told(change, place, record.partition, record.offset))
        if told or records:
            deadline = loop.time() + _PATIENCE_SECONDS
        elif loop.time() > deadline:
            raise Unavailable("the log does not answer; try again", part="kafka")
        if told:
            yield told


def _change(record: ChangeRecord, tenant_id: str) -> Change | None:
    if record.tenant_id != tenant_id:
        return None
    with suppress(ValueError, AttributeError):
        change = read_change(record.event_type, json.loads(record.value))
        if change is not None and change.tenant_id == tenant_id:
            return change
    return None


def _behind(place: Place, end: Place) -> int:
    return sum(max(0, offset - place.offsets.get(partition, 0)) for partition, offset in end.offsets.items())
