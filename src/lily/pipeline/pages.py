"""Appends what an outbox has to tell to the log, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from uuid import NAMESPACE_URL, UUID, uuid5

from confluent_kafka import KafkaError, KafkaException, Producer

from lily.log.envelope import Envelope, EventType, Headers
from lily.log.producer import producer_config
from lily.log.topics import Topic
from lily.repositories.postgres.outbox import Page
from lily.settings import KafkaSettings

_REPORT = {"linger.ms": 20, "delivery.report.only.error": True}
_FLUSH_SECONDS = 30


class PageProducer:
    """For one thread at a time."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._failures: list[str] = []

    @cached_property
    def _producer(self) -> Producer:
        return Producer(producer_config(self._settings) | _REPORT)

    def append(self, topic: Topic, event_type: EventType, page: Page) -> int:
        """Tell these, mostly without waiting for the broker; returns how many there were to tell."""
        name, produce = topic.under(self._settings.topic_prefix), self._producer.produce
        count = 0
        for key, data, headers in _records(event_type, page):
            try:
                produce(name, data, key, headers=headers, on_delivery=self._note)
            except BufferError:
                self.flush()
                produce(name, data, key, headers=headers, on_delivery=self._note)
            count += 1
        return count

    def flush(self) -> None:
        """Return when the broker has everything."""
        left = self._producer.flush(_FLUSH_SECONDS)
        failures, self._failures = self._failures, []
        if left or failures:
            raise KafkaException(f"the log did not acknowledge what was told: {failures[:1]}")

    def _note(self, error: KafkaError | None, _: object) -> None:
        self._failures.append(str(error))


def _records(event_type: EventType, page: Page) -> Iterator[tuple[bytes, bytes, Headers]]:
    """Key, data and headers of what there is to tell; the headers are those of the next record after it, too:
    to copy them, and to keep all records of a page, took longer than all else here."""
    known: tuple[bytes, bytes, bytes] | None = None
    for tenant_id, actor, traceparent, subject, event_id, at, data in page.told:
        if not data:
            continue
        if known != (tenant_id, actor, traceparent):
            known = tenant_id, actor, traceparent
            headers = _headers(event_type, *known)
            prefix = tenant_id + b"/"
        headers[_ID] = ("ce_id", event_id or _id_of(subject))
        headers[_TIME] = ("ce_time", at)
        headers[_SUBJECT] = ("ce_subject", subject)
        yield prefix + subject, data, headers


def _headers(event_type: EventType, tenant_id: bytes, actor: bytes, traceparent: bytes) -> Headers:
    """What is told of one tenant, actor and trace has these in common."""
    return Envelope(
        event_id=UUID(int=0),
        event_type=event_type,
        source="lily/pipeline",
        tenant_id=tenant_id.decode(),
        subject="",
        time=datetime.now(UTC),
        data=b"",
        actor=actor.decode(),
        traceparent=traceparent.decode(),
    ).headers()


_NAMES = [name for name, _ in _headers(EventType.ASSET_CHANGED, b"", b"", b"")]
_ID, _TIME, _SUBJECT = (_NAMES.index(name) for name in ("ce_id", "ce_time", "ce_subject"))


def _id_of(subject: bytes) -> bytes:
    """A dead letter may have no id of its own: its place in the log then makes one."""
    return str(uuid5(NAMESPACE_URL, subject.decode())).encode()
