"""Fills the leaf topic with columns as a scraper would, as fast as one process can."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from confluent_kafka import Producer

from bench.kit.events import column
from lily.apps.migrate import migrate
from lily.domain.event_ids import MAX_BATCH, new_batch_id
from lily.log.envelope import Envelope, EventType, Headers
from lily.log.producer import producer_config
from lily.log.records import member_texts
from lily.log.topics import Topic
from lily.settings import KafkaSettings, load_settings
from lily.standalone.services import start_services

_FLUSH_SECONDS = 120.0
#: A scraper's own name for it; the subject is left out, since every payload has its asset's id.
_SOURCE = "bench/scraper"
_NEEDED = ("ce_specversion", "ce_id", "ce_type", "ce_source", "ce_time", "ce_tenantid")


def prefill(data_dir: Path, tenant: str, columns: int) -> None:
    """Run as a process: fill the topic of an installation whose pipeline does not run yet."""
    services = start_services(data_dir)
    try:
        settings = load_settings(data_dir)
        migrate(settings)
        fill(settings.kafka, tenant, columns)
    finally:
        services.stop()


def fill(kafka: KafkaSettings, tenant: str, columns: int) -> float:
    """Append this many columns, all acknowledged when it returns; the seconds that took."""
    started = time.monotonic()
    failures: list[str] = []
    producer = Producer(
        producer_config(kafka)
        | {"linger.ms": 50, "batch.num.messages": 20_000, "message.timeout.ms": int(_FLUSH_SECONDS * 1000)}
        | {"on_delivery": lambda error, _: failures.append(error.str()) if error else None}
    )
    for first in range(0, columns, MAX_BATCH):
        _append(producer, kafka, tenant, range(first, min(columns, first + MAX_BATCH)))
    if producer.flush(_FLUSH_SECONDS) or failures:
        raise RuntimeError(f"the log did not take all columns: {failures[:1]}")
    return time.monotonic() - started


def _append(producer: Producer, kafka: KafkaSettings, tenant: str, numbers: range) -> None:
    topic = Topic.LEAF_ASSETS.under(kafka.topic_prefix)
    batch_id = new_batch_id(time.time_ns() // 1_000_000, len(numbers))
    before, after = _headers(tenant)
    prefix = f"{tenant}/".encode()
    for event_id, number in zip(member_texts(batch_id), numbers, strict=True):
        asset_id, event = column(number)
        headers = [*before, ("ce_id", event_id), *after]
        _produce(producer, topic, event, prefix + asset_id, headers)
    producer.poll(0)


def _produce(producer: Producer, topic: str, value: bytes, key: bytes, headers: Headers) -> None:
    while True:
        try:
            return producer.produce(topic, value, key, headers=headers)
        except BufferError:
            producer.poll(0.05)


def _headers(tenant: str) -> tuple[Headers, Headers]:
    """The headers before and after the id, the same for all columns of a request."""
    envelope = Envelope(
        UUID(int=0), EventType.ASSET_ASSERTED, _SOURCE, tenant, "", datetime.now(UTC), b"", actor="scraper"
    )
    needed = [header for header in envelope.headers() if header[0] in _NEEDED]
    place = [name for name, _ in needed].index("ce_id")
    return needed[:place], needed[place + 1 :]
