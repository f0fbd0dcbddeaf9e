"""Tells what batches have changed: from the database's outbox to `metadata-changes` and `dead-letters`.

At least once, in order per lane: the position moves on only after the broker's acknowledgement, and the
event's id stays the same, so a reader that keeps ids sees each change once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from uuid import NAMESPACE_URL, UUID, uuid5

import psycopg
from confluent_kafka import KafkaError, KafkaException, Producer

from lily.domain.assets import Lane
from lily.log.envelope import Envelope, EventType
from lily.log.producer import producer_config
from lily.log.records import Record, RecordTemplate
from lily.log.topics import Topic
from lily.pipeline.followers import Follower
from lily.repositories.postgres.outbox import Outbox, Told, changes_of, dead_letters_of, incidents_of
from lily.settings import Settings
from lily.telemetry import CHANGES_PUBLISHED

_MOST = 2000
_REPORT = {"linger.ms": 20, "delivery.report.only.error": True}
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
    """One thread per lane, woken after every batch."""

    def __init__(self, settings: Settings, lane: Lane, after_publish: Callable[[], None]) -> None:
        self._settings = settings
        self._lane = lane
        self._after_publish = after_publish
        self._wake = threading.Event()
        self._follower = Follower(
            "relay", self._relay, (psycopg.Error, KafkaException), lane.value, _NICE[lane]
        )
        self._channels = _channels(lane)

    def start(self) -> None:
        self._follower.start()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._follower.stopped.set()
        self._wake.set()

    @cached_property
    def _producer(self) -> Producer:
        return Producer(producer_config(self._settings.kafka) | _REPORT)

    def _relay(self) -> None:
        url = self._settings.database.url.get_secret_value()
        with psycopg.connect(url, autocommit=True) as connection:
            positions = {channel: channel.outbox.position(connection) for channel in self._channels}
            while not self._follower.stopped.is_set():
                self._wake.clear()
                for channel in self._channels:
                    while told := channel.outbox.read(connection, positions[channel], _MOST):
                        self._publish(channel, told)
                        positions[channel] = told[-1].seq
                        channel.outbox.advance(connection, positions[channel])
                self._wake.wait(_IDLE_SECONDS)

    def _publish(self, channel: _Channel, told: Sequence[Told]) -> None:
        topic = channel.topic.under(self._settings.kafka.topic_prefix)
        failures: list[str] = []

        def note_failure(error: KafkaError | None, _: object) -> None:
            failures.append(str(error))

        records = list(_records(channel.event_type, told))
        for record in records:
            self._producer.produce(
                topic, record.value, record.key, headers=record.headers, on_delivery=note_failure
            )
        if self._producer.flush(30) or failures:
            raise KafkaException(f"{channel.topic} did not acknowledge: {failures[:1]}")
        CHANGES_PUBLISHED.labels(self._lane.value).inc(len(records))
        self._after_publish()


def _records(event_type: EventType, told: Sequence[Told]) -> Iterator[Record]:
    """The records that tell these rows; neighbours of one tenant and actor share what they have in common."""
    common: tuple[str, str] | None = None
    for row in told:
        if row.data is None:
            continue
        if common != (row.tenant_id, row.actor):
            common = (row.tenant_id, row.actor)
            template = RecordTemplate(_envelope(event_type, row))
        record = template.record(_id_of(row), row.subject, row.data.encode())
        record.headers[template.time] = ("ce_time", row.at.isoformat())
        if row.traceparent:
            record.headers.append(("traceparent", row.traceparent))
        yield record


def _envelope(event_type: EventType, row: Told) -> Envelope:
    return Envelope(
        event_id=UUID(int=0),
        event_type=event_type,
        source="lily/pipeline",
        tenant_id=row.tenant_id,
        subject=row.subject,
        time=row.at,
        data=b"",
        actor=row.actor,
    )


def _id_of(row: Told) -> bytes:
    """A dead letter may have no id of its own: its place in the log then makes one."""
    return (row.event_id or str(uuid5(NAMESPACE_URL, row.subject))).encode()
