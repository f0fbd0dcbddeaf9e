"""The one reader of `metadata-changes` of a gateway process: everything told, to everybody who listens."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
from confluent_kafka import KafkaException

from lily.domain.changes import Change, read_change
from lily.domain.errors import Unavailable
from lily.log.bounds import LogBounds
from lily.log.changes import ChangeFeed, ChangeRecord, Positions
from lily.settings import KafkaSettings

_POLL_SECONDS = 0.5
_RETRY_SECONDS = 0.5
_START_SECONDS = 10.0
#: How often the broker is asked whether all it has was read, and for how long after the last question.
_CONFIRM_SECONDS = 0.5
_WATCHED_SECONDS = 60.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Heard:
    """A change and its place on the log."""

    change: Change
    topic: str
    partition: int
    offset: int


Hearer = Callable[[Sequence[Heard]], None]


class SharedFeed:
    """Starts when first asked for; from then on it reads until the process ends."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._bounds = LogBounds(settings, patience_seconds=2.0)
        self._hearers: list[Hearer] = []
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._assigned = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watched_until = 0.0
        #: Everything told before this moment (of `time.monotonic`) was given to all hearers.
        self.confirmed_at = float("-inf")
        #: The next offset to be heard of every partition; a hearer still sees those before what it hears.
        self.positions: dict[str, dict[int, int]] = {}

    def subscribe(self, hear: Hearer) -> None:
        """Call `hear` with everything told from now on, on the event loop."""
        self._hearers.append(hear)

    async def start(self) -> None:
        """Return when the feed reads; `Unavailable` when the log cannot be read."""
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._read_forever, name="change-feed", daemon=True)
            self._thread.start()
        if self._assigned.is_set():
            return
        try:
            await asyncio.wait_for(self._assigned.wait(), _START_SECONDS)
        except TimeoutError:
            raise _not_read() from None

    async def is_current(self, seconds: float) -> bool:
        """Whether all that was told until so many seconds ago was heard; from now on this is watched."""
        now = time.monotonic()
        was_watched = now < self._watched_until
        self._watched_until = now + _WATCHED_SECONDS
        if not was_watched:  # the first confirmation takes a moment
            while self.confirmed_at < now and time.monotonic() < now + seconds:
                await asyncio.sleep(0.02)
        return time.monotonic() - self.confirmed_at < seconds

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Stop reading when the context is closed."""
        try:
            yield
        finally:
            self._stopped.set()
            if self._thread is not None:
                await asyncio.to_thread(self._thread.join, 2)

    def _read_forever(self) -> None:
        while not self._stopped.is_set():
            try:
                feed = ChangeFeed.alone(self._settings, self.positions or None)
            except (KafkaException, Unavailable) as error:
                _log.warning("change_feed_lost", error=str(error))
                self._stopped.wait(_RETRY_SECONDS)
                continue
            try:
                self._read(feed)
            except KafkaException as error:
                _log.warning("change_feed_lost", error=str(error))
            finally:
                feed.close()

    def _read(self, feed: ChangeFeed) -> None:
        self._tell([], feed.positions)
        asked_at, ends = 0.0, None
        while not self._stopped.is_set():
            now = time.monotonic()
            watched = now < self._watched_until
            records = feed.poll(min(_POLL_SECONDS, _CONFIRM_SECONDS) if watched else _POLL_SECONDS)
            if records:
                self._tell(records, feed.positions)
            if ends is not None and _reached(feed.positions, ends):
                self.confirmed_at, ends = asked_at, None
            if watched and ends is None and now - asked_at >= _CONFIRM_SECONDS:
                asked_at, ends = time.monotonic(), self._ends(feed.positions)
                if ends is not None and _reached(feed.positions, ends):
                    self.confirmed_at, ends = asked_at, None

    def _ends(self, positions: Positions) -> Positions | None:
        try:
            return self._bounds.ends(positions)
        except Unavailable:
            return None

    def _tell(self, records: Sequence[ChangeRecord], positions: Positions) -> None:
        """Give to the hearers, and read on when they had it: a busy process reads no further ahead."""
        assert self._loop is not None
        heard = [each for record in records if (each := _heard(record)) is not None]
        done = threading.Event()

        def tell() -> None:
            for hear in self._hearers:
                hear(heard)
            self.positions = {topic: dict(partitions) for topic, partitions in positions.items()}
            self._assigned.set()
            done.set()

        try:
            self._loop.call_soon_threadsafe(tell)
        except RuntimeError:  # the loop has ended, and the process with it
            self._stopped.set()
            return
        while not done.wait(0.1) and not self._stopped.is_set():
            pass


def _heard(record: ChangeRecord) -> Heard | None:
    try:
        change = read_change(record.event_type, json.loads(record.value))
    except (ValueError, AttributeError):  # somebody else's words on our topic
        return None
    return Heard(change, record.topic, record.partition, record.offset) if change else None


def _reached(positions: Positions, ends: Positions) -> bool:
    return all(
        positions.get(topic, {}).get(partition, 0) >= end
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    )


def _not_read() -> Unavailable:
    return Unavailable("the log of changes cannot be read; try again", part="kafka")
