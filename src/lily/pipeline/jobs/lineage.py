"""The lineage lane: what is said about edges and tags; small batches, straight through the driver."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lily.log.topics import Topic
from lily.pipeline.lanes import LaneQuery, apply_in_driver
from lily.pipeline.session import STRUCTURAL_POOL, query_name
from lily.pipeline.sources import Pace, read_topics
from lily.pipeline.statement_staging import stage_statements
from lily.pipeline.transforms.records import as_records
from lily.settings import Settings

NAME = "lineage"
#: The number bounds the driver's memory: a batch is one Arrow table there.
PACE = Pace(most=20_000, pause="300ms")


def start(session: SparkSession, settings: Settings, query: LaneQuery) -> StreamingQuery:
    session.sparkContext.setLocalProperty("spark.scheduler.pool", STRUCTURAL_POOL)
    return (
        read_topics(session, settings.kafka, [Topic.METADATA_EVENTS], PACE)
        .transform(as_records)
        .writeStream.queryName(query_name(settings, NAME))
        .option("checkpointLocation", f"{settings.spark.checkpoints}/{NAME}")
        .foreachBatch(
            lambda batch, batch_id: apply_in_driver(
                query, batch_id, lambda: stage_statements(batch.toArrow())
            )
        )
        .start()
    )
