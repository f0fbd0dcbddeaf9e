"""A gateway whose log a test applies when it wants to, as the lineage lane and propagation would."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import uuid4

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from httpx import Response
from rest_kit import Gateway

from kit import monte_carlo
from kit.lineage_runs import Graph, Piece
from kit.records import RECORDS
from kit.staging import batch_of
from lily.domain.assets import Lane
from lily.log.producer import client_config
from lily.log.topics import Topic
from lily.pipeline.statement_staging import stage_statements
from lily.settings import KafkaSettings

SECRET = "a shared secret of this test"
INCIDENTS = "/lily/v1/incidents"
ASYNC = {"prefer": "respond-async"}
_batches = count(10_000)


class Tail:
    """Reads `metadata-events` from where it stopped."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._consumer = Consumer(
            client_config(settings) | {"group.id": "none", "enable.partition.eof": True}
        )
        name = Topic.METADATA_EVENTS.under(settings.topic_prefix)
        partitions = self._consumer.list_topics(name, timeout=10).topics[name].partitions
        self._next = {TopicPartition(name, partition): 0 for partition in partitions}
        self._consumer.assign([TopicPartition(name, partition, 0) for partition in partitions])

    def new(self) -> list[Any]:
        """What was appended since."""
        ends = {place: self._consumer.get_watermark_offsets(place, 10)[1] for place in self._next}
        found: list[Any] = []
        while any(self._next[place] < end for place, end in ends.items()):
            message = self._consumer.poll(10)
            assert message is not None, "the log did not answer"
            if message.error():  # the client asks again by itself
                continue
            self._next[TopicPartition(message.topic(), message.partition())] = message.offset() + 1
            found.append(message)
        return found

    def close(self) -> None:
        self._consumer.close()


@dataclass
class Site:
    """A tenant of its own at a gateway."""

    api: Gateway
    graph: Graph
    log: Tail
    tenant: str = field(default_factory=lambda: f"t-{uuid4().hex[:8]}")

    def token(self, role: str = "owner", subject: str = "ada") -> str:
        return self.api.token(tenant=self.tenant, role=role, subject=subject)

    def call(self, method: str, path: str, role: str = "owner", **options: Any) -> Response:
        return self.api.call(method, path, as_=self.token(role), **options)

    def connect(
        self, type_: str = "monte-carlo", name: str = "mc", secret: str = SECRET, **config: Any
    ) -> str:
        body = {"type": type_, "name": name, "secret": secret, "config": config}
        answer = self.call("POST", f"/lily/v1/connectors/{self.tenant}", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["connector_id"])

    def deliver(self, connector: str, body: bytes, secret: str = SECRET) -> Response:
        """A webhook of Monte Carlo."""
        path = f"/lily/v1/webhooks/monte-carlo/{connector}"
        return self.api.client.post(path, content=body, headers=monte_carlo.signed(secret, body))

    def report(self, connector: str, *bodies: bytes) -> str:
        """The same, taken and applied; the incident it is about."""
        for body in bodies:
            answer = self.deliver(connector, body)
            assert answer.status_code == 200, answer.text
            self.flow()
        return str(answer.json()["incidents"][0])

    def apply(self, *said: Any) -> None:
        piece: Piece = list(said)
        self.graph.apply({self.tenant: piece})

    def flow(self) -> None:
        """Apply what came on the log since."""
        rows = [
            {
                "topic": message.topic(),
                "partition": message.partition(),
                "offset": message.offset(),
                "timestamp": datetime.now(UTC),
                "key": message.key(),
                "value": message.value(),
                "headers": [{"key": name, "value": value} for name, value in message.headers() or ()],
            }
            for message in self.log.new()
        ]
        staged = stage_statements(pa.Table.from_pylist(rows, RECORDS))
        assert set(staged["reason"].to_pylist()) <= {None}, staged["detail"]
        self.graph.applier.apply_table(batch_of(len(rows), next(_batches), Lane.LINEAGE), staged)
        while self.graph.propagator.run():
            pass

    def incident(self, incident_id: str, role: str = "owner") -> dict[str, Any]:
        answer = self.call("GET", f"{INCIDENTS}/{incident_id}", role)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def asset(self, asset_id: str, role: str = "owner") -> dict[str, Any]:
        answer = self.call("GET", f"/lily/v1/metadata/{asset_id}", role)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())
