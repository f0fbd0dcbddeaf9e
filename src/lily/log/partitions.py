"""What the broker knows of partitions: which there are, from where to where, and how far a group has come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from lily.domain.errors import MisconfiguredError
from lily.log.producer import client_config
from lily.log.topics import Topic
from lily.settings import KafkaSettings

_TIMEOUT = 30.0
_PAUSE = 0.1
#: A partition that is just made or moved says so for a moment, and so does a group that was never heard of.
_PASSING = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
T = TypeVar("T")


def partitions_of(settings: KafkaSettings, topics: Iterable[Topic]) -> dict[str, list[int]]:
    """The partitions of every topic, by its full name."""
    known = AdminClient(client_config(settings)).list_topics(timeout=_TIMEOUT).topics
    names = [topic.under(settings.topic_prefix) for topic in topics]
    missing = [name for name in names if name not in known]
    if missing:
        raise MisconfiguredError(f"topics {', '.join(missing)} do not exist; run `./lily migrate`")
    return {name: sorted(known[name].partitions) for name in names}


def begin_and_end(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    """The first offset a partition holds and the next it will give."""
    begin, end = _once_ready(lambda: consumer.get_watermark_offsets(place, _TIMEOUT))
    return begin, end


def committed(consumer: Consumer, places: list[TopicPartition]) -> list[TopicPartition]:
    """How far the consumer's group has come; an offset below 0 says that it committed nothing."""
    return _once_ready(lambda: consumer.committed(places, _TIMEOUT))


def _once_ready(ask: Callable[[], T]) -> T:
    deadline = time.monotonic() + _TIMEOUT
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
