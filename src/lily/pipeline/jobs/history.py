"""Keeps every change of every asset in the lake: `metadata-changes` → `lily.history`."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from lily.log.topics import Topic
from lily.pipeline.session import HISTORY_POOL
from lily.pipeline.sources import Pace, read_topics
from lily.repositories.iceberg.catalog import HISTORY
from lily.settings import Settings

NAME = "history"
#: An Iceberg commit takes 0.7 to 0.9 s however small it is, so history follows at its own pace.
INTERVAL = "10 seconds"
PACE = Pace(most=200_000, pause="1s")

_CHANGE = """
    tenant_id STRING, asset_id STRING, version INT, event_id STRING, event_time TIMESTAMP,
    applied_at TIMESTAMP, outcome STRING, actor STRING, changed ARRAY<STRING>, lane STRING, seq BIGINT,
    asset STRING
"""


def start(session: SparkSession, settings: Settings) -> StreamingQuery:
    session.sparkContext.setLocalProperty("spark.scheduler.pool", HISTORY_POOL)
    return (
        read_topics(session, settings.kafka, [Topic.METADATA_CHANGES], PACE)
        .transform(read_changes)
        .writeStream.queryName(NAME)
        .format("iceberg")
        .option("checkpointLocation", f"{settings.spark.checkpoints}/{NAME}")
        .option("fanout-enabled", "true")
        .option("distribution-mode", "none")  # no shuffle: a batch lies in one day, seldom two
        .trigger(processingTime=INTERVAL)
        .toTable(HISTORY)
    )


def read_changes(events: DataFrame) -> DataFrame:
    """Change events in, rows of `lily.history` out."""
    return events.select(F.from_json(F.col("value").cast("string"), _CHANGE).alias("change")).select(
        "change.*"
    )
