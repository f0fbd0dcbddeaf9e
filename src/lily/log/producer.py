"""Appends records to Kafka and answers only when the broker has acknowledged every one of them."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from lily.domain.errors import Unavailable
from lily.log.records import Record
from lily.log.topics import MAX_RECORD_BYTES, Topic
from lily.settings import KafkaSettings

#: How long the broker may take before the caller hears that nothing is certain.
ACK_TIMEOUT_MS = 5000
MAX_QUEUED_EVENTS = 100_000
_QUEUE_KILOBYTES = 128 * 1024
#: How often acknowledgements are looked for while some are still to come.
_POLL_SECONDS = 0.002

_log = structlog.get_logger(__name__)


def client_config(settings: KafkaSettings) -> dict[str, Any]:
    """What every Kafka client of Lily has in common: where the brokers are and how to log in."""
    # The library's own lines repeat for every failed connection; errors reach us where they happen.
    config: dict[str, Any] = {
        "bootstrap.servers": settings.bootstrap_servers,
        "log_level": 2,
        "enable.metrics.push": False,  # nobody reads them
    }
    if settings.username:
        config |= {
            "security.protocol": "SASL_SSL" if settings.tls else "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": settings.username,
            "sasl.password": settings.password.get_secret_value(),
        }
    elif settings.tls:
        config["security.protocol"] = "SSL"
    if settings.tls_ca:
        config["ssl.ca.location"] = settings.tls_ca
    if settings.tls_client:
        config |= {"ssl.certificate.location": settings.tls_client, "ssl.key.location": settings.tls_client}
    return config


def producer_config(settings: KafkaSettings) -> dict[str, Any]:
    return client_config(settings) | {
        "enable.idempotence": True,
        "acks": "all",
        # 10 ms would save gateway and broker some µs per event, and every caller would wait for them.
        "linger.ms": 5,
        "compression.type": "lz4",
        "message.timeout.ms": ACK_TIMEOUT_MS,
        "message.max.bytes": MAX_RECORD_BYTES,
        "queue.buffering.max.messages": MAX_QUEUED_EVENTS,
        "queue.buffering.max.kbytes": _QUEUE_KILOBYTES,
        # The partitioner of the Java clients, so that an asset stays in its partition whoever writes.
        "partitioner": "murmur2_random",
        # A broker that comes back is found again within a second.
        "reconnect.backoff.max.ms": 1000,
    }


class LogProducer:
    """One idempotent producer per process, shared by all requests.

    The event loop looks for acknowledgements itself: a thread that does would take the interpreter from it
    for each of them, and give it back.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._config = producer_config(settings)
        self._prefix = settings.topic_prefix
        self._waiting = 0
        self._polled_by: AbstractEventLoop | None = None

    def start(self) -> None:
        self._producer = Producer(self._config)

    async def append(self, records: Mapping[Topic, Sequence[Record]], prefix: str | None = None) -> None:
        """Return when all are on the log for good; `Unavailable` when that is not certain in time.

        `prefix` is that of another cell's topics.
        """
        producer = self._producer
        expected = sum(map(len, records.values()))
        if len(producer) + expected > MAX_QUEUED_EVENTS:
            raise Unavailable("the log takes no more events at the moment; nothing was accepted, try again")
        delivery = _Delivery(expected)
        for topic, of_topic in records.items():
            _enqueue(producer, topic.under(self._prefix if prefix is None else prefix), of_topic, delivery)
        error = await self._acknowledged(delivery)
        if error is not None:
            await self._replace_after(error, producer)
            raise Unavailable(
                f"the log did not acknowledge the events ({error.str()}); send them again, "
                "with the same Idempotency-Key if you used one",
                kafka_error=error.name(),
            )

    async def _acknowledged(self, delivery: _Delivery) -> KafkaError | None:
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            if self._polled_by is not loop:
                self._polled_by = loop
                loop.call_later(_POLL_SECONDS, self._poll, loop)
            return await delivery.done
        finally:
            self._waiting -= 1

    def _poll(self, loop: AbstractEventLoop) -> None:
        if self._polled_by is not loop:  # another one has taken over
            return
        if not (self._waiting or len(self._producer)):
            self._polled_by = None
            return
        loop.call_later(_POLL_SECONDS, self._poll, loop)  # first, so that no error ends it
        self._producer.poll(0)

    async def _replace_after(self, error: KafkaError, producer: Producer) -> None:
        """A fatal error ends a producer's life; the next request gets a new one."""
        if error.code() == KafkaError._FATAL and self._producer is producer:
            _log.warning("log_producer_replaced", error=error.str())
            self._producer = Producer(self._config)
            await asyncio.to_thread(producer.flush, 1)

    def close(self) -> None:
        """Send what is queued, then stop."""
        self._producer.flush(ACK_TIMEOUT_MS / 1000)


def _enqueue(producer: Producer, topic: str, records: Sequence[Record], delivery: _Delivery) -> None:
    produce, acknowledge = producer.produce, delivery.acknowledge
    for position, record in enumerate(records):
        try:
            produce(topic, record.value, record.key, on_delivery=acknowledge, headers=record.headers)
        except (BufferError, KafkaException) as error:
            delivery.give_up(_kafka_error(error), missing=len(records) - position)
            return


class _Delivery:
    """Counts the acknowledgements of one request and wakes its coroutine once, after the last.

    Any thread may tell one: taking the next number is a single step, which no other thread comes between.
    """

    def __init__(self, expected: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[KafkaError | None] = self._loop.create_future()
        self._missing = iter(range(expected - 1, -1, -1))
        self._error: KafkaError | None = None

    def acknowledge(self, error: KafkaError | None, _message: object) -> None:
        if error is not None and self._error is None:
            self._error = error
        if next(self._missing) == 0:
            self._loop.call_soon_threadsafe(self._resolve)

    def give_up(self, error: KafkaError, missing: int) -> None:
        for _ in range(missing):
            self.acknowledge(error, None)

    def _resolve(self) -> None:
        if not self.done.done():
            self.done.set_result(self._error)


def _kafka_error(error: BufferError | KafkaException) -> KafkaError:
    if isinstance(error, KafkaException):
        return error.args[0]  # type: ignore[no-any-return]
    return KafkaError(KafkaError._QUEUE_FULL)
