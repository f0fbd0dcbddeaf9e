"""Tells what batches have changed: from the database's outbox to `metadata-changes` and `dead-letters`.

At least once, in order per lane: the position moves on only after the broker's acknowledgement, and the
event's id stays the same, so a reader that keeps ids sees each change once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import NAMESPACE_URL, UUID, uuid5

import psycopg
import structlog
from confluent_kafka import KafkaException, Producer

from lily.domain.assets import Lane
from lily.log.envelope import Envelope, EventType
from lily.log.producer import producer_config
from lily.log.topics import Topic
from lily.repositories.postgres.outbox import Outbox, Told, changes_of, dead_letters_of
from lily.settings import Settings
from lily.telemetry import CHANGES_PUBLISHED

_log = structlog.get_logger(__name__)

_MOST = 2000
_IDLE_SECONDS = 5.0
_RETRY_SECONDS = 1.0
#: Columns may be told later: the leaf lane's relay yields the processor to everything else.
_NICE = {Lane.STRUCTURAL: 0, Lane.LEAF: 15}


@dataclass(frozen=True)
class _Channel:
    outbox: Outbox
    topic: Topic
    event_type: EventType


class Relay:
    """One thread per lane, woken after every batch."""

    def __init__(self, settings: Settings, lane: Lane) -> None:
        self._settings = settings
        self._lane = lane
        self._wake = threading.Event()
        self._channels = (
            _Channel(changes_of(lane), Topic.METADATA_CHANGES, EventType.ASSET_CHANGED),
            _Channel(dead_letters_of(lane), Topic.DEAD_LETTERS, EventType.EVENT_REFUSED),
        )

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"relay-{self._lane.value}", daemon=True).start()

    def wake(self) -> None:
        self._wake.set()

    def _run(self) -> None:
        if _NICE[self._lane] and hasattr(os, "setpriority"):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE[self._lane])
        producer = Producer(producer_config(self._settings.kafka) | {"linger.ms": 20})
        while True:
            try:
                self._relay(producer)
            except (psycopg.Error, KafkaException) as error:
                _log.warning("relay_interrupted", lane=self._lane.value, error=str(error))
                threading.Event().wait(_RETRY_SECONDS)
            except BaseException:
                # A relay that stops in silence would let changes pile up: take the process down with it.
                _log.exception("relay_failed", lane=self._lane.value)
                os._exit(1)

    def _relay(self, producer: Producer) -> None:
        url = self._settings.database.url.get_secret_value()
        with psycopg.connect(url, autocommit=True) as connection:
            positions = {channel: channel.outbox.position(connection) for channel in self._channels}
            while True:
                self._wake.clear()
                for channel in self._channels:
                    while told := channel.outbox.read(connection, positions[channel], _MOST):
                        self._publish(producer, channel, told)
                        positions[channel] = told[-1].seq
                        channel.outbox.advance(connection, positions[channel])
                self._wake.wait(_IDLE_SECONDS)

    def _publish(self, producer: Producer, channel: _Channel, told: Sequence[Told]) -> None:
        topic = channel.topic.under(self._settings.kafka.topic_prefix)
        failures: list[str] = []
        published = 0
        for row in told:
            if row.data is not None:
                envelope = _envelope(channel.event_type, row, row.data)
                producer.produce(
                    topic,
                    envelope.data,
                    envelope.key,
                    headers=envelope.headers(),
                    on_delivery=lambda error, _: failures.append(error.str()) if error else None,
                )
                published += 1
        if producer.flush(30) or failures:
            raise KafkaException(f"{channel.topic} did not acknowledge: {failures[:1]}")
        CHANGES_PUBLISHED.labels(self._lane.value).inc(published)


def _envelope(event_type: EventType, row: Told, data: str) -> Envelope:
    return Envelope(
        event_id=_as_uuid(row.event_id, row.subject),
        event_type=event_type,
        source="lily/pipeline",
        tenant_id=row.tenant_id,
        subject=row.subject,
        time=row.at,
        data=data.encode(),
        actor=row.actor,
        traceparent=row.traceparent,
    )


def _as_uuid(event_id: str, subject: str) -> UUID:
    """A dead letter may have no id of its own: its place in the log then makes one."""
    return UUID(event_id) if event_id else uuid5(NAMESPACE_URL, subject)
