"""Where the log ends: the next offset of every partition, asked of the broker."""

from __future__ import annotations

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from lily.domain.assets import Lane
from lily.domain.errors import Unavailable
from lily.log.producer import client_config
from lily.log.topics import LANE_TOPICS
from lily.settings import KafkaSettings


class LogEnds:
    """Blocking; call it in a thread."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._config = client_config(settings)
        self._topics = {lane: topic.under(settings.topic_prefix) for lane, topic in LANE_TOPICS.items()}
        self._client: AdminClient | None = None
        self._partitions: list[TopicPartition] = []

    def by_lane(self, seconds: float) -> dict[Lane, dict[str, int]]:
        """The end of every partition of both lanes, or `Unavailable` within that time."""
        try:
            ends = self._ask(seconds)
        except KafkaException as error:
            # A broker that came back under another epoch is never believed by an old client.
            self._client = None
            raise Unavailable(f"Kafka does not answer: {error.args[0].str()}", part="kafka") from error
        return {
            lane: {str(place.partition): offset for place, offset in ends.items() if place.topic == topic}
            for lane, topic in self._topics.items()
        }

    def _ask(self, seconds: float) -> dict[TopicPartition, int]:
        if self._client is None:
            self._client = AdminClient(self._config | {"reconnect.backoff.max.ms": 1000})
        if not self._partitions:
            topics = self._client.list_topics(timeout=seconds).topics
            self._partitions = [
                TopicPartition(name, partition)
                for name in self._topics.values()
                for partition in (topics[name].partitions if name in topics else ())
            ]
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call] # the client types it not
        question = dict.fromkeys(self._partitions, latest)
        answers = self._client.list_offsets(question, request_timeout=seconds) if question else {}
        return {place: answer.result(timeout=seconds).offset for place, answer in answers.items()}
