"""Starts over: forgets checkpoints and positions, or the whole state, to be rebuilt from events.

The log is read again when the streams start. What the log no longer holds is taken from the lake first.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import psycopg
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lily.domain.assets import Lane
from lily.log.partitions import begin_and_end, partitions_of
from lily.log.producer import client_config
from lily.log.topics import LANE_TOPICS, Topic
from lily.pipeline.jobs import leaf, lineage, structural
from lily.pipeline.lanes import LaneQuery, describe
from lily.pipeline.staging import stage
from lily.pipeline.statement_staging import stage_statements
from lily.pipeline.summaries import summarise
from lily.pipeline.transforms.records import as_records
from lily.repositories.iceberg.catalog import events_table
from lily.repositories.postgres.applier import Applier
from lily.repositories.postgres.lineage_applier import LineageApplier
from lily.repositories.postgres.queries import load
from lily.settings import KafkaSettings, Settings

_SQL = load("replay.sql")
_QUERIES = {Lane.STRUCTURAL: structural.NAME, Lane.LEAF: leaf.NAME, Lane.LINEAGE: lineage.NAME}
_CHUNK = 20_000


def forget(settings: Settings, *, reset: bool) -> None:
    """Drop the lanes' checkpoints and positions; with `reset` also all state made from events."""
    with psycopg.connect(settings.database.url.get_secret_value()) as connection:
        connection.execute(_SQL["forget_positions"], {"queries": list(_QUERIES.values())})
        if reset:
            connection.execute(_SQL["forget_state"])
    for name in _QUERIES.values():
        shutil.rmtree(Path(settings.spark.checkpoints) / name, ignore_errors=True)


def restore_from_lake(session: SparkSession, settings: Settings) -> int:
    """Apply the archived events that are no longer on the log; returns how many there were."""
    url = settings.database.url.get_secret_value()
    restored = 0
    for lane, topic in LANE_TOPICS.items():
        apply = _applying(url, lane)
        for partition, first in first_offsets(settings.kafka, topic).items():
            name = topic.under(settings.kafka.topic_prefix)
            older = session.table(events_table(settings.lake.namespace)).where(
                (F.col("topic") == name) & (F.col("partition") == partition) & (F.col("offset") < first)
            )
            restored += _apply(apply, older)
    return restored


def _apply(apply: Callable[[DataFrame, int], int], events: DataFrame) -> int:
    """Apply archived events of one partition in log order, a bounded number at a time."""
    bounds = events.agg(F.min("offset"), F.max("offset")).first()
    if bounds is None or bounds[0] is None:
        return 0
    applied = 0
    for start in range(bounds[0], bounds[1] + 1, _CHUNK):
        chunk = events.where(F.col("offset").between(start, start + _CHUNK - 1)).dropDuplicates(["offset"])
        applied += apply(chunk, start)
    return applied


def _applying(url: str, lane: Lane) -> Callable[[DataFrame, int], int]:
    is_lineage = lane is Lane.LINEAGE
    applier = LineageApplier(url) if is_lineage else Applier(url)
    query = LaneQuery(f"{_QUERIES[lane]}-restored", lane, applier, lambda _: None)

    def apply(chunk: DataFrame, start: int) -> int:
        records = chunk.transform(as_records).toArrow()
        staged = (stage_statements if is_lineage else stage)(records)
        if staged.num_rows:
            query.applier.apply_table(describe(query, start, summarise(staged)), staged)
        return int(staged.num_rows)

    return apply


def first_offsets(settings: KafkaSettings, topic: Topic) -> dict[int, int]:
    """The first offset each partition still holds."""
    consumer = Consumer(client_config(settings) | {"group.id": "lily-replay", "enable.auto.commit": False})
    try:
        ((name, partitions),) = partitions_of(settings, [topic]).items()
        return {p: begin_and_end(consumer, TopicPartition(name, p))[0] for p in partitions}
    finally:
        consumer.close()
