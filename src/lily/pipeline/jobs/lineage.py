"""The lineage lane: what is said about edges and tags; small batches, straight through the driver."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lily.domain.assets import Lane
from lily.log.topics import Topic
from lily.pipeline.lanes import pauses
from lily.pipeline.session import STRUCTURAL_POOL, query_name
from lily.pipeline.sources import Pace, read_topics
from lily.pipeline.statements import stage_statements
from lily.repositories.postgres.applier import ConnectionLost
from lily.repositories.postgres.lineage_applier import LineageApplier, StagedStatement
from lily.settings import Settings
from lily.telemetry import BATCH_SECONDS, EVENTS_APPLIED, EVENTS_DEAD, VISIBLE_SECONDS

NAME = "lineage"
#: The number bounds the driver's memory: a batch is a list there.
PACE = Pace(most=20_000, pause="200ms")
_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class LineageQuery:
    """What the query writes with, and whom it tells how many events became visible."""

    applier: LineageApplier
    after_commit: Callable[[int], None]


def start(session: SparkSession, settings: Settings, query: LineageQuery) -> StreamingQuery:
    session.sparkContext.setLocalProperty("spark.scheduler.pool", STRUCTURAL_POOL)
    return (
        read_topics(session, settings.kafka, [Topic.METADATA_EVENTS], PACE)
        .select(*_COLUMNS)
        .writeStream.queryName(query_name(settings, NAME))
        .option("checkpointLocation", f"{settings.spark.checkpoints}/{NAME}")
        .foreachBatch(lambda batch, batch_id: apply_batch(query, batch, batch_id))
        .start()
    )


def apply_batch(query: LineageQuery, batch: DataFrame, batch_id: int) -> None:
    """Apply a batch once; wait as long as the database is away."""
    started = time.perf_counter()
    staged = stage_statements(batch.toArrow().to_pylist())
    if not staged:
        return
    collected = time.perf_counter()
    for pause in pauses():
        try:
            if query.applier.apply(NAME, batch_id, staged):
                _tell(query, staged, collected - started, time.perf_counter() - collected)
            return
        except ConnectionLost as error:
            _log.warning("database_away", query=NAME, batch_id=batch_id, error=error.message)
            time.sleep(pause)


def _tell(query: LineageQuery, staged: list[StagedStatement], collect: float, merge: float) -> None:
    dead = sum(statement.reason is not None for statement in staged)
    EVENTS_APPLIED.labels(Lane.LINEAGE.value).inc(len(staged) - dead)
    EVENTS_DEAD.labels(Lane.LINEAGE.value).inc(dead)
    BATCH_SECONDS.labels(Lane.LINEAGE.value, "collect").observe(collect)
    BATCH_SECONDS.labels(Lane.LINEAGE.value, "merge").observe(merge)
    received = [statement.received_at for statement in staged if statement.received_at]
    for moment in {min(received), max(received)} if received else set():
        seconds = (datetime.now(UTC) - moment).total_seconds()
        VISIBLE_SECONDS.labels(Lane.LINEAGE.value).observe(max(0.0, seconds))
    query.after_commit(len(staged))
