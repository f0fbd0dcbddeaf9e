"""Reads `metadata-changes`, or other topics, of all cells: in a group, or alone from given offsets."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from lily.domain.errors import Unavailable
from lily.log.producer import client_config
from lily.log.topics import Topic
from lily.settings import KafkaSettings

_TIMEOUT = 10.0
#: A cell that was made meanwhile is read after this long, from its beginning.
_REFRESH_SECONDS = 10.0
_NO_GROUP = "lily-no-group"
#: The readers that tell targets.
DISPATCHERS = "lily-dispatcher"
_READING = {
    "enable.auto.commit": False,
    "enable.partition.eof": False,
    "auto.offset.reset": "earliest",
    "topic.metadata.refresh.interval.ms": int(_REFRESH_SECONDS * 1000),
    # The broker answers at once when there is something; without anything it is asked this seldom.
    "fetch.wait.max.ms": 1000,
    "reconnect.backoff.max.ms": 1000,
    # What is read ahead of a slow reader is bounded.
    "queued.max.messages.kbytes": 8 * 1024,
}
_IN_GROUP = {
    # Of a killed member the others take over after six seconds, the least the broker allows.
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 1500,
    "partition.assignment.strategy": "cooperative-sticky",
}

#: The next offset to read of every partition, by the full name of its topic.
Positions = Mapping[str, Mapping[int, int]]
#: The same, by topic and partition.
Ends = Mapping[tuple[str, int], int]


class ChangeRecord(NamedTuple):
    """One record of `metadata-changes` and its place on the log."""

    topic: str
    partition: int
    offset: int
    event_type: str
    tenant_id: str
    value: bytes


class Skimmed:
    """What was told, as the client has it: a record of each takes 5 µs, and most are for nobody."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._tenants = [_tenant_of(message) for message in messages]
        last = {(message.topic(), message.partition()): message.offset() for message in messages}
        #: What is to be read after these.
        self.ends: Ends = {
            (topic or "", partition or 0): (offset or 0) + 1 for (topic, partition), offset in last.items()
        }

    def __bool__(self) -> bool:
        return bool(self._messages)

    @property
    def tenants(self) -> set[str]:
        return {_name_of(tenant) for tenant in set(self._tenants)}

    def records(self, tenants: Collection[str]) -> list[ChangeRecord]:
        """Those of these tenants, in order."""
        names = {tenant: _name_of(tenant) for tenant in set(self._tenants)}
        wanted = {tenant: name for tenant, name in names.items() if name in tenants}
        if not wanted:
            return []
        told = zip(self._messages, self._tenants, strict=True)
        return [_record_of(message, wanted[tenant]) for message, tenant in told if tenant in wanted]


class ChangeFeed:
    """A reader of the changes of every cell. Blocking; call it from one thread at a time.

    Records of one asset come in order. Nothing is committed before `commit`: what was read and not
    committed is read again, by this or by another member of the group.
    """

    def __init__(
        self, settings: KafkaSettings, group: str, topics: Sequence[Topic] = (Topic.METADATA_CHANGES,)
    ) -> None:
        self._pattern = _pattern(settings.topic_prefix, topics)
        alone = group == _NO_GROUP
        config = client_config(settings) | _READING | ({} if alone else _IN_GROUP)
        # The group belongs to the installation: several may share a broker.
        self._consumer = Consumer(config | {"group.id": f"{settings.topic_prefix}{group}"})
        self._positions: dict[str, dict[int, int]] = {}
        self._refresh_at = float("inf")
        if not alone:
            self._consumer.subscribe([f"^{self._pattern.pattern}$"])

    @classmethod
    def alone(cls, settings: KafkaSettings, start: Positions | None = None) -> Self:
        """A reader that sees everything, from these positions; without any, what is told from now on.

        Partitions that `start` does not name are read from where the log ends now if it is None, otherwise
        from their beginning.
        """
        feed = cls(settings, _NO_GROUP)
        feed._positions = {topic: dict(partitions) for topic, partitions in (start or {}).items()}
        deadline = time.monotonic() + _TIMEOUT
        while not feed._assign_new(from_end=start is None):
            if time.monotonic() > deadline:
                raise Unavailable("Kafka does not tell where metadata-changes ends; try again", part="kafka")
            time.sleep(0.1)
        feed._refresh_at = time.monotonic() + _REFRESH_SECONDS
        return feed

    @property
    def positions(self) -> Positions:
        """Where this reader goes on, given back to `alone` after a restart."""
        return {topic: dict(partitions) for topic, partitions in self._positions.items()}

    def poll(self, seconds: float, most: int = 500) -> list[ChangeRecord]:
        """What was told, as soon as there is something; nothing after this time."""
        skimmed = self.skim(seconds, most)
        return skimmed.records(skimmed.tenants)

    def skim(self, seconds: float, most: int) -> Skimmed:
        """The same, for readers who want little of it."""
        if time.monotonic() > self._refresh_at:
            self._assign_new(from_end=False)
            self._refresh_at = time.monotonic() + _REFRESH_SECONDS
        first = self._consumer.poll(seconds)
        if first is None:
            return Skimmed([])
        messages = [first, *self._consumer.consume(most - 1, 0)] if most > 1 else [first]
        skimmed = Skimmed([message for message in messages if message.error() is None or _is_told(message)])
        for (topic, partition), end in skimmed.ends.items():
            self._positions.setdefault(topic, {})[partition] = end
        return skimmed

    def commit(self, ends: Ends) -> None:
        """All before these is done with; for readers in a group.

        A partition may have been handed on since it was read: its new reader is further, and is not set back.
        """
        ours = {(each.topic, each.partition) for each in self._consumer.assignment()}
        done = [TopicPartition(*place, end) for place, end in ends.items() if place in ours]
        if not done:
            return
        try:
            self._consumer.commit(offsets=done, asynchronous=False)
        except KafkaException as error:
            # Not ours any more, or the broker is away: whoever reads them again finds them done.
            if not error.args[0].retriable() and error.args[0].code() not in _NOT_OURS:
                raise

    def close(self) -> None:
        self._consumer.close()

    def _assign_new(self, *, from_end: bool) -> bool:
        """Read the partitions that are not read yet as well; false when some must be asked for again."""
        try:
            fresh = [self._starting(place, from_end=from_end) for place in self._unassigned()]
        except KafkaException:  # a topic that is just being made has no leader yet
            return False
        if fresh:
            self._consumer.incremental_assign(fresh)
        return True

    def _unassigned(self) -> list[TopicPartition]:
        topics = self._consumer.list_topics(timeout=_TIMEOUT).topics
        assigned = {(place.topic, place.partition) for place in self._consumer.assignment()}
        return [
            TopicPartition(name, partition)
            for name in topics
            if self._pattern.fullmatch(name)
            for partition in topics[name].partitions
            if (name, partition) not in assigned
        ]

    def _starting(self, place: TopicPartition, *, from_end: bool) -> TopicPartition:
        known = self._positions.setdefault(place.topic, {})
        if place.partition not in known:
            low, high = self._consumer.get_watermark_offsets(place, _TIMEOUT)
            known[place.partition] = high if from_end else low
        return TopicPartition(place.topic, place.partition, known[place.partition])


_NOT_OURS = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._STATE,
    }
)


def _pattern(prefix: str, topics: Sequence[Topic]) -> re.Pattern[str]:
    """The topics of the shared cell, and those of the dedicated ones."""
    shared = prefix.replace(".", "[.]")  # Kafka's client knows fewer escapes than Python
    return re.compile(rf"{shared}(cell-[a-z0-9-]+[.])?({'|'.join(topic.value for topic in topics)})")


def _is_told(message: Message) -> bool:
    error = message.error()
    if error is None:
        return True
    if error.fatal():
        raise KafkaException(error)
    return False  # the client reconnects and goes on by itself


def _tenant_of(message: Message) -> bytes:
    """From the key (`Envelope.key`), which costs a tenth of what the headers do."""
    return (message.key() or b"").partition(b"/")[0]


def _name_of(tenant: bytes) -> str:
    return tenant.decode(errors="replace")


def _record_of(message: Message, tenant_id: str) -> ChangeRecord:
    headers: dict[str, Any] = dict(message.headers() or ())
    return ChangeRecord(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        event_type=_text(headers.get("ce_type")),
        tenant_id=tenant_id,
        value=message.value() or b"",
    )


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""
