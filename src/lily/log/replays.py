"""Appends records to the log again, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Producer

from lily.domain.errors import Unavailable
from lily.log.envelope import Headers
from lily.log.producer import producer_config
from lily.settings import KafkaSettings

_FLUSH_SECONDS = 30

#: Topic, key, value, headers.
RawRecord = tuple[str, bytes | None, bytes, Headers]


def append_again(settings: KafkaSettings, records: Sequence[RawRecord]) -> None:
    """Return when the broker has acknowledged all of them."""
    producer = Producer(producer_config(settings))
    failures: list[str] = []
    for topic, key, value, headers in records:
        producer.produce(
            topic,
            value,
            key,
            headers=headers,
            on_delivery=lambda error, _: failures.append(error.str()) if error else None,
        )
    if producer.flush(_FLUSH_SECONDS) or failures:
        reason = failures[0] if failures else "no answer"
        raise Unavailable(f"the log did not acknowledge the records: {reason}")
