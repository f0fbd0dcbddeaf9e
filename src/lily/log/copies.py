"""Copies one tenant's records from the topics of a cell to those of another, byte for byte and in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from lily.domain.errors import Unavailable
from lily.log.partitions import begin_and_end, partitions_of
from lily.log.producer import client_config, producer_config
from lily.log.replays import RawRecord, append_again
from lily.log.topics import Topic
from lily.settings import KafkaSettings

_TIMEOUT = 30.0
_PAGE = 1000
_PATIENCE = 0.5
#: A fetch that waits for more at the end of a partition delays the one after it.
_READING = {"group.id": "none", "enable.auto.commit": False, "fetch.wait.max.ms": 10}

#: The next offset of every partition, by the full name of its topic.
Offsets = Mapping[str, Mapping[int, int]]


class TenantCopy:
    """Remembers how far it has come, so that it can go on when more has arrived."""

    def __init__(self, source: KafkaSettings, target: KafkaSettings, tenant_id: str, topics: Iterable[Topic]):
        self._source, self._target = source, target
        self._tenant = tenant_id.encode()
        self._topics = tuple(topics)
        self._target_name = {t.under(source.topic_prefix): t.under(target.topic_prefix) for t in self._topics}
        self._next = {name: dict.fromkeys(found, 0) for name, found in self._partitions().items()}
        self.copied = 0
        # Kept for all of the copy: the last part of it is waited for.
        self._consumer = Consumer(client_config(source) | _READING)
        self._producer = Producer(producer_config(target))

    def first_offsets(self) -> Offsets:
        """Where the source's log begins; more than 0 where the log has forgotten its first records."""
        return _watermarks(self._source, self._partitions(), 0)

    def append(self, records: Iterable[RawRecord]) -> None:
        """Append records that the source's log has forgotten; they are named by the source's topics."""
        for page in batched(records, _PAGE):
            append_again(
                self._target,
                [(self._target_name[topic], key, value, headers) for topic, key, value, headers in page],
            )
            self.copied += len(page)

    def advance(self) -> int:
        """Copy what is on the source's log now; returns how many records that were."""
        before = self.copied
        for topic, partitions in self._next.items():
            for partition, start in partitions.items():
                place = TopicPartition(topic, partition, start)
                low, end = begin_and_end(self._consumer, place)
                if start < end:
                    self._copy(TopicPartition(topic, partition, max(start, low)), end)
                partitions[partition] = max(start, end)
        return self.copied - before

    def close(self) -> None:
        self._consumer.close()

    def _copy(self, start: TopicPartition, end: int) -> None:
        self._consumer.assign([start])
        failures: list[str] = []

        def note(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error.str())

        reached = start.offset
        while reached < end:
            # No more than are there: it would wait for the rest.
            for message in self._consumer.consume(min(_PAGE, end - reached), _PATIENCE):
                if message.error():
                    raise Unavailable(f"the log cannot be read: {message.error()}; start the move again")
                reached = (message.offset() or 0) + 1
                if self._is_of_tenant(message):
                    self._produce(message, note)
        if self._producer.flush(_TIMEOUT) or failures:
            raise Unavailable(f"the log did not take the records {failures[:1]}; start the move again")

    def _produce(self, message: Message, note: Callable[[KafkaError | None, Message], None]) -> None:
        topic = self._target_name[message.topic() or ""]
        while True:
            try:
                self._producer.produce(
                    topic, message.value(), message.key(), headers=message.headers() or [], on_delivery=note
                )
                self.copied += 1
                return
            except BufferError:
                self._producer.poll(0.1)

    def _is_of_tenant(self, message: Message) -> bool:
        return ("ce_tenantid", self._tenant) in (message.headers() or [])

    def _partitions(self) -> dict[str, list[int]]:
        return partitions_of(self._source, self._topics)


def batched(records: Iterable[RawRecord], size: int) -> Iterator[list[RawRecord]]:
    rest = iter(records)
    while page := list(islice(rest, size)):
        yield page


def end_offsets(settings: KafkaSettings, topics: Iterable[Topic]) -> Offsets:
    """Where the log of a cell ends now."""
    return _watermarks(settings, partitions_of(settings, topics), 1)


def _watermarks(settings: KafkaSettings, partitions: Mapping[str, list[int]], which: int) -> Offsets:
    consumer = Consumer(client_config(settings) | {"group.id": "none"})
    try:
        return {
            topic: {
                number: begin_and_end(consumer, TopicPartition(topic, number))[which] for number in numbers
            }
            for topic, numbers in partitions.items()
        }
    finally:
        consumer.close()
