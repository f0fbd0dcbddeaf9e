"""Runs the pipeline on made-up events and rolls them back, so that the first real event meets warm code.

Without it the first batches take 4 to 10 s until the JVM has compiled what they use.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lily.log.envelope import EventType
from lily.pipeline.jobs.leaf import on_executors
from lily.pipeline.lanes import LaneQuery, describe
from lily.pipeline.staging import stage
from lily.pipeline.summaries import summarise
from lily.pipeline.transforms.records import as_records

_TENANT = "lily-warm-up"
_SIZES = (1, 2000, 1, 4000)
_LEAVES = 10


def warm_up(session: SparkSession, structural: LaneQuery, url: str) -> None:
    """Both lanes at once: one is busy on the driver while the other starts its Python workers."""
    with ThreadPoolExecutor() as lanes:
        for warm in (lanes.submit(_warm_leaf, session, url), lanes.submit(_warm, session, structural)):
            warm.result()


def _warm(session: SparkSession, query: LaneQuery) -> None:
    """Parse, judge and apply batches of several sizes as the structural lane does; nothing of it stays."""
    for size in _SIZES:
        staged = stage(made_up_records(session, size).transform(as_records).toArrow())
        batch = describe(query, 0, summarise(staged))
        query.applier.apply_table(batch, staged, keep=False)


def _warm_leaf(session: SparkSession, url: str) -> None:
    """Apply a batch on the executors as the leaf lane does, and take it back."""
    on_executors(made_up_records(session, _LEAVES).transform(as_records), url, keep=False)


def made_up_records(session: SparkSession, size: int) -> DataFrame:
    """Records as the Kafka source would give them; made by the JVM, so that no Python worker is started."""
    number = F.col("id").cast("string")
    headers = {
        "ce_id": F.uuid(),
        "ce_type": F.lit(EventType.ASSET_ASSERTED.value),
        "ce_source": F.lit("lily/warm-up"),
        "ce_time": F.current_timestamp().cast("string"),
        "ce_tenantid": F.lit(_TENANT),
        "ce_subject": number,
    }
    payload = F.struct(
        number.alias("asset_id"),
        F.lit("orders").alias("asset_name"),
        F.lit("table").alias("asset_type"),
        F.lit("warm-up").alias("data_source"),
        F.array(F.lit("PII")).alias("tags"),
        F.struct(number.alias("rows")).alias("metadata"),
        F.current_timestamp().cast("string").alias("event_time"),
    )
    return session.range(0, size, 1, 2).select(
        number.cast("binary").alias("key"),
        F.to_json(payload).cast("binary").alias("value"),
        F.lit("warm-up").alias("topic"),
        (F.col("id") % 2).cast("int").alias("partition"),
        F.col("id").alias("offset"),
        F.current_timestamp().alias("timestamp"),
        F.array(*(_header(name, value) for name, value in headers.items())).alias("headers"),
    )


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
