"""Reads topics of the log as streams."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from lily.log.partitions import partitions_of
from lily.log.topics import Topic
from lily.settings import KafkaSettings

_LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}" password="{}";'


def kafka_options(settings: KafkaSettings) -> dict[str, str]:
    """How Spark reaches the log.

    A parked fetch delays the next one by `fetch.max.wait.ms`, hence 10. A query that asks for the end of a
    topic cannot be stopped before it has an answer, or has asked three times in vain; if it failed more often
    than once in `FORGIVEN_SECONDS`, a broker that stays away would have the whole pipeline start anew.
    Nobody reads the metrics that clients push to brokers.
    """
    options = {
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        "kafka.fetch.max.wait.ms": "10",
        "kafka.default.api.timeout.ms": "25000",
        "kafka.enable.metrics.push": "false",
    }
    if settings.username:
        options |= {
            "kafka.security.protocol": "SASL_SSL" if settings.tls else "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": _LOGIN.format(settings.username, settings.password.get_secret_value()),
        }
    elif settings.tls:
        options["kafka.security.protocol"] = "SSL"
    if settings.tls_ca:
        options |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": settings.tls_ca}
    if settings.tls_client:
        options |= {"kafka.ssl.keystore.type": "PEM", "kafka.ssl.keystore.location": settings.tls_client}
    return options


@dataclass(frozen=True)
class Pace:
    """How a query batches: at most so many records, and at least so long between two batches.

    A batch costs about 100 ms of processor time however small it is. The pause bounds how many there are
    under load; a record that comes after a quiet moment does not wait, but for the next look at the log,
    `look` later than the one before.
    """

    most: int
    pause: str = ""
    look: str = "100ms"

    def options(self) -> dict[str, str]:
        queue = {"minOffsetsPerTrigger": str(self.most), "maxTriggerDelay": self.pause} if self.pause else {}
        return {"maxOffsetsPerTrigger": str(self.most)} | queue


#: For the lake: what a batch that is stopped half-way has to do again.
LAKE_PACE = Pace(most=50_000)


def read_topics(
    session: SparkSession, settings: KafkaSettings, topics: Iterable[Topic], pace: Pace
) -> DataFrame:
    """The records of these topics from the first on.

    Partitions are assigned, not subscribed to: a subscription asks the broker for them with every look at
    the log's end, and they never change (that would break the order of an asset's events).
    """
    # A query keeps the setting it was started with.
    session.conf.set("spark.sql.streaming.pollingDelay", pace.look)
    return (
        session.readStream.format("kafka")
        .options(**kafka_options(settings))
        .option("assign", json.dumps(partitions_of(settings, topics)))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .options(**pace.options())
        .option("failOnDataLoss", "true")
        .load()
    )
