"""Keeps every event as received in the lake, so that replay works past the log's retention."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from lily.log.topics import LANE_TOPICS
from lily.pipeline.session import HISTORY_POOL, query_name
from lily.pipeline.sources import LAKE_PACE, read_topics
from lily.pipeline.transforms.records import in_few_tasks
from lily.repositories.iceberg.catalog import events_table
from lily.settings import Settings

NAME = "archive"


def start(session: SparkSession, settings: Settings) -> StreamingQuery:
    """Run until everything received so far is in the lake."""
    session.sparkContext.setLocalProperty("spark.scheduler.pool", HISTORY_POOL)
    return (
        read_topics(session, settings.kafka, LANE_TOPICS.values(), LAKE_PACE)
        .transform(as_received)
        .transform(in_few_tasks)
        .writeStream.queryName(query_name(settings, NAME))
        .format("iceberg")
        .option("checkpointLocation", f"{settings.spark.checkpoints}/{NAME}")
        .option("fanout-enabled", "true")
        .option("distribution-mode", "none")  # no shuffle: a batch lies in one day, seldom two
        .trigger(availableNow=True)
        .toTable(events_table(settings.lake.namespace))
    )


def as_received(events: DataFrame) -> DataFrame:
    """Kafka records in, rows of `lily.events` out: nothing is judged or left out."""

    def header(name: str) -> Column:
        return F.try_element_at(F.col("header"), F.lit(name)).cast("string")

    return events.withColumn("header", F.map_from_entries("headers")).select(
        "topic",
        "partition",
        "offset",
        "timestamp",
        header("ce_tenantid").alias("tenant_id"),
        header("ce_id").alias("event_id"),
        header("ce_type").alias("event_type"),
        "key",
        "value",
        "headers",
    )
