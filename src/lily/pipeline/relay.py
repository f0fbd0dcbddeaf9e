"""Tells what batches have changed: from the database's outbox to `metadata-changes` and `dead-letters`.

At least once, in order per lane: the position moves on only after the broker's acknowledgement, and the
event's id stays the same, so a reader that keeps ids sees each change once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from confluent_kafka import KafkaException

from lily.domain.assets import Lane
from lily.log.envelope import EventType
from lily.log.topics import Topic
from lily.pipeline.followers import Follower
from lily.pipeline.pages import PageProducer
from lily.pipeline.pressures import Deference, Pressure
from lily.repositories.postgres.outbox import PLANS, Outbox, changes_of, dead_letters_of, incidents_of
from lily.settings import Settings
from lily.telemetry import CHANGES_PUBLISHED

#: What is read at once. Of 100 rows each took the client twice as long, of 2,000 PostgreSQL a quarter longer.
_MOST = 500
#: So many times that is acknowledged by the broker at once.
_PAGES = 4
_IDLE_SECONDS = 5.0
#: Columns may be told later: the leaf lane's relay yields the processor to everything else.
_NICE = {Lane.STRUCTURAL: 0, Lane.LEAF: 15, Lane.LINEAGE: 0}

_CHANGED = {
    Lane.STRUCTURAL: EventType.ASSET_CHANGED,
    Lane.LEAF: EventType.ASSET_CHANGED,
    Lane.LINEAGE: EventType.TAGS_CHANGED,
}


@dataclass(frozen=True)
class _Channel:
    outbox: Outbox
    topic: Topic
    event_type: EventType


def _channels(lane: Lane) -> tuple[_Channel, ...]:
    changes = _Channel(changes_of(lane), Topic.METADATA_CHANGES, _CHANGED[lane])
    dead = _Channel(dead_letters_of(lane), Topic.DEAD_LETTERS, EventType.EVENT_REFUSED)
    if lane is not Lane.LINEAGE:
        return changes, dead
    # Incidents first: somebody may be waiting to be alerted.
    told = Topic.METADATA_CHANGES, EventType.INCIDENT_CHANGED
    return *(_Channel(outbox, *told) for outbox in incidents_of(lane)), changes, dead


class Relay:
    """One thread per lane, woken after every batch; with a pressure it gives way to that."""

    def __init__(
        self,
        settings: Settings,
        lane: Lane,
        after_publish: Callable[[], None],
        pressure: Pressure | None = None,
    ) -> None:
        self._settings = settings
        self._lane = lane
        self._after_publish = after_publish
        self._deference = Deference(pressure)
        self._wake = threading.Event()
        self._follower = Follower(
            "relay", self._relay, (psycopg.Error, KafkaException), lane.value, _NICE[lane]
        )
        self._channels = _channels(lane)
        self._log = PageProducer(settings.kafka)

    def start(self) -> None:
        self._follower.start()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._follower.stopped.set()
        self._wake.set()

    def _relay(self) -> None:
        url = self._settings.database.url.get_secret_value()
        with psycopg.connect(url, autocommit=True, options=PLANS) as connection:
            positions = {channel: channel.outbox.position(connection) for channel in self._channels}
            while not self._follower.stopped.is_set():
                self._wake.clear()
                for channel in self._channels:
                    positions[channel] = self._catch_up(connection, channel, positions[channel])
                self._deference.caught_up()
                self._wake.wait(_IDLE_SECONDS)

    def _catch_up(self, connection: psycopg.Connection, channel: _Channel, position: int) -> int:
        """Tell everything after this position; returns the new one."""
        is_last = False
        while not is_last:
            self._deference.give_way(self._follower.stopped)
            before, count = position, 0
            for _ in range(_PAGES):
                page = channel.outbox.read(connection, position, _MOST)
                count += self._log.append(channel.topic, channel.event_type, page)
                position, is_last = page.seq, page.is_last
                if is_last:
                    break
            if position > before:
                self._log.flush()
                channel.outbox.advance(connection, position)
                CHANGES_PUBLISHED.labels(self._lane.value).inc(count)
                self._after_publish()
        return position
