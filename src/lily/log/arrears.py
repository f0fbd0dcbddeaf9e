"""How much of some topics a group of readers has not read yet."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, TopicPartition

from lily.log.partitions import begin_and_end, committed, partitions_of
from lily.log.producer import client_config
from lily.log.topics import Topic
from lily.settings import KafkaSettings


def count_unread(settings: KafkaSettings, group: str, topics: Iterable[Topic]) -> int:
    """The records on a cell's topics that the group has not committed; all of them when it never did."""
    consumer = Consumer(client_config(settings) | {"group.id": group, "enable.auto.commit": False})
    try:
        places = [
            TopicPartition(topic, number)
            for topic, numbers in partitions_of(settings, topics).items()
            for number in numbers
        ]
        return sum(_unread(consumer, place) for place in committed(consumer, places))
    finally:
        consumer.close()


def _unread(consumer: Consumer, reached: TopicPartition) -> int:
    begin, end = begin_and_end(consumer, reached)
    return end - max(begin, reached.offset)
