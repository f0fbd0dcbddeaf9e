"""The structural lane: databases, schemas, tables, dashboards; small batches, straight through the driver."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lily.log.topics import Topic
from lily.pipeline.lanes import LaneQuery, apply_in_driver
from lily.pipeline.session import STRUCTURAL_POOL, query_name
from lily.pipeline.sources import Pace, read_topics
from lily.pipeline.staging import stage
from lily.pipeline.transforms.records import as_records
from lily.settings import Settings

NAME = "assets-structural"
#: The number bounds the driver's memory: a batch is one Arrow table there.
PACE = Pace(most=20_000, pause="200ms", look="40ms")


def start(session: SparkSession, settings: Settings, query: LaneQuery) -> StreamingQuery:
    session.sparkContext.setLocalProperty("spark.scheduler.pool", STRUCTURAL_POOL)
    return (
        read_topics(session, settings.kafka, [Topic.STRUCTURAL_ASSETS], PACE)
        .transform(as_records)
        .writeStream.queryName(query_name(settings, NAME))
        .option("checkpointLocation", f"{settings.spark.checkpoints}/{NAME}")
        .foreachBatch(lambda batch, batch_id: apply_batch(query, batch, batch_id))
        .start()
    )


def apply_batch(query: LaneQuery, batch: DataFrame, batch_id: int) -> None:
    """What is unfit carries a reason; the rest is applied as one table."""
    apply_in_driver(query, batch_id, lambda: stage(batch.toArrow()))
