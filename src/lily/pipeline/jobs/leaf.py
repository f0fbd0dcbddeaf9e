"""The leaf lane: columns and BI fields; large batches, copied to PostgreSQL by the executors in parallel."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa
import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lily.log.topics import Topic
from lily.pipeline.lanes import LaneQuery, apply_and_tell, describe, pauses
from lily.pipeline.session import LEAF_POOL, query_name
from lily.pipeline.sources import Pace, read_topics
from lily.pipeline.staging import stage_batch
from lily.pipeline.summaries import SPARK_SCHEMA, summarise
from lily.pipeline.transforms.records import as_records
from lily.repositories.postgres.applier import ConnectionLost, StagingEmptied, copy_to_leaf_staging
from lily.settings import Settings

NAME = "assets-leaf"
PACE = Pace(most=200_000, pause="1s", look="300ms")

_log = structlog.get_logger(__name__)


def start(session: SparkSession, settings: Settings, query: LaneQuery) -> StreamingQuery:
    session.sparkContext.setLocalProperty("spark.scheduler.pool", LEAF_POOL)
    url = settings.database.url.get_secret_value()
    return (
        read_topics(session, settings.kafka, [Topic.LEAF_ASSETS], PACE)
        .transform(as_records)
        .writeStream.queryName(query_name(settings, NAME))
        .option("checkpointLocation", f"{settings.spark.checkpoints}/{NAME}")
        .foreachBatch(lambda batch, batch_id: apply_batch(query, url, batch, batch_id))
        .start()
    )


def apply_batch(query: LaneQuery, url: str, batch: DataFrame, batch_id: int) -> None:
    """Have the executors copy the batch to the staging table, then apply it there at once."""
    for pause in pauses():
        try:
            with query.at_work():
                _copy_and_apply(query, url, batch, batch_id)
            return
        except (ConnectionLost, StagingEmptied) as error:
            _log.warning("batch_copied_again", query=query.name, batch_id=batch_id, error=error.message)
            time.sleep(pause)


def _copy_and_apply(query: LaneQuery, url: str, batch: DataFrame, batch_id: int) -> None:
    query.applier.clear_staging()
    started = time.perf_counter()
    summary = copy_batch(batch, url)
    collected = time.perf_counter() - started
    described = describe(query, batch_id, summary)
    apply_and_tell(query, described, summary, collected, lambda: query.applier.apply_staged(described))


def copy_batch(batch: DataFrame, url: str, *, keep: bool = True) -> pa.Table:
    """Have the executors copy a batch; returns its summary. `keep=False` is a rehearsal."""

    def copy(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return copy_and_summarise(url, batches, keep)

    return batch.mapInArrow(copy, SPARK_SCHEMA).toArrow()


def copy_and_summarise(
    url: str, batches: Iterable[pa.RecordBatch], keep: bool = True
) -> Iterator[pa.RecordBatch]:
    """Runs on an executor: copies one partition and yields what the driver needs to know of it."""
    staged = [stage_batch(batch) for batch in batches]
    if staged:
        copy_to_leaf_staging(url, staged, keep=keep)
        yield from summarise(pa.Table.from_batches(staged)).to_batches()
