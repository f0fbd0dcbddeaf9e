"""Where partitions begin and end at this moment, asked over a connection of its own.

A reader's own connection answers only after the read that is under way, which waits for something to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo, OffsetSpec

from lily.domain.errors import Unavailable
from lily.log.changes import Positions
from lily.log.producer import client_config
from lily.settings import KafkaSettings


class LogBounds:
    """Blocking, for as long as its patience lasts; call it in a thread.

    Partitions that are gone, as those of a removed cell, are left out.
    """

    def __init__(self, settings: KafkaSettings, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self._config = client_config(settings) | {"reconnect.backoff.max.ms": 1000}
        self._client: AdminClient | None = None

    def ends(self, places: Positions) -> Mapping[str, Mapping[int, int]]:
        """The next offset of every partition the positions name; `Unavailable` when the broker is silent."""
        return self._ask(places, OffsetSpec.latest())  # type: ignore[no-untyped-call] # the client types it not

    def begins(self, places: Positions) -> Mapping[str, Mapping[int, int]]:
        """The first offset that is still kept of every partition these positions name."""
        return self._ask(places, OffsetSpec.earliest())  # type: ignore[no-untyped-call] # as above

    def _ask(self, places: Positions, which: OffsetSpec) -> dict[str, dict[int, int]]:
        question = {
            TopicPartition(topic, each): which for topic, offsets in places.items() for each in offsets
        }
        found: dict[str, dict[int, int]] = {}
        try:
            if self._client is None:
                self._client = AdminClient(self._config)
            seconds = self._patience_seconds
            answers = self._client.list_offsets(question, request_timeout=seconds) if question else {}
            for place, answer in answers.items():
                if (offset := _offset(answer, seconds)) is not None:
                    found.setdefault(place.topic, {})[place.partition] = offset
        except (KafkaException, TimeoutError) as error:
            # A broker that came back under another epoch is never believed by an old client.
            self._client = None
            said = str(error) or f"nothing in {self._patience_seconds:g} s"
            raise Unavailable(f"Kafka does not answer ({said}); try again", part="kafka") from error
        return found


def _offset(answer: Future[ListOffsetsResultInfo], seconds: float) -> int | None:
    try:
        return answer.result(seconds).offset
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise
