"""Which partitions a topic has."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka.admin import AdminClient

from lily.domain.errors import MisconfiguredError
from lily.log.producer import client_config
from lily.log.topics import Topic
from lily.settings import KafkaSettings

_TIMEOUT = 30.0


def partitions_of(settings: KafkaSettings, topics: Iterable[Topic]) -> dict[str, list[int]]:
    """The partitions of every topic, by its full name."""
    known = AdminClient(client_config(settings)).list_topics(timeout=_TIMEOUT).topics
    names = [topic.under(settings.topic_prefix) for topic in topics]
    missing = [name for name in names if name not in known]
    if missing:
        raise MisconfiguredError(f"topics {', '.join(missing)} do not exist; run `./lily migrate`")
    return {name: sorted(known[name].partitions) for name in names}
