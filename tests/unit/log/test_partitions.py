"""Where a partition begins and ends is asked again while it has no leader, and only then."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from lily.log.partitions import begin_and_end

PLACE = TopicPartition("notifications", 0)


class Broker:
    """Fails with these codes, one after the other, then answers."""

    def __init__(self, *codes: int) -> None:
        self._codes = list(codes)

    def get_watermark_offsets(self, _place: TopicPartition, _seconds: float) -> tuple[int, int]:
        if self._codes:
            raise KafkaException(KafkaError(self._codes.pop(0)))
        return 2, 7


def test_a_partition_that_is_just_made_is_asked_until_it_has_a_leader() -> None:
    broker = Broker(KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION)
    assert begin_and_end(cast(Any, broker), PLACE) == (2, 7)


def test_any_other_trouble_is_told_at_once() -> None:
    broker = Broker(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException):
        begin_and_end(cast(Any, broker), PLACE)
