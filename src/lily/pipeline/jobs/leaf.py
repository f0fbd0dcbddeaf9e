"""The leaf lane: columns and BI fields; the executors apply large batches in parallel, each its partitions.

An asset's events are in one partition, so no two executors write the same asset, and a chunk that was applied
before a crash counts once when Spark repeats the batch. Who follows changes sees them when the batch is over
(ADR 36).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lily.domain.assets import Lane
from lily.log.topics import Topic
from lily.pipeline.lanes import LaneQuery, apply_and_tell, describe, patiently
from lily.pipeline.session import LEAF_POOL, query_name
from lily.pipeline.sources import Pace, read_topics
from lily.pipeline.staging import stage_batch
from lily.pipeline.summaries import SPARK_SCHEMA, summarise
from lily.pipeline.transforms.records import as_records, by_half_the_tasks
from lily.repositories.postgres.applier import Applier, Batch, Phases
from lily.settings import Settings

NAME = "assets-leaf"
PACE = Pace(most=200_000, pause="1s", look="300ms")
#: The summary of each chunk, and the seconds it took.
_SCHEMA = SPARK_SCHEMA + "".join(f", {phase} DOUBLE" for phase in vars(Phases()))


_appliers: dict[str, Applier] = {}


def start(session: SparkSession, settings: Settings, query: LaneQuery) -> StreamingQuery:
    session.sparkContext.setLocalProperty("spark.scheduler.pool", LEAF_POOL)
    url = settings.database.url.get_secret_value()
    return (
        read_topics(session, settings.kafka, [Topic.LEAF_ASSETS], PACE)
        .transform(as_records)
        .transform(by_half_the_tasks)
        .writeStream.queryName(query_name(settings, NAME))
        .option("checkpointLocation", f"{settings.spark.checkpoints}/{NAME}")
        .foreachBatch(lambda batch, batch_id: apply_batch(query, url, batch, batch_id))
        .start()
    )


def apply_batch(query: LaneQuery, url: str, batch: DataFrame, batch_id: int) -> None:
    """Have the executors apply the batch, then note that it is done."""
    with query.at_work():
        is_known = patiently(query.name, lambda: _is_known(query, batch_id))
        done = on_executors(batch, url, must_apply=not is_known)
        described = describe(query, batch_id, done)
        apply_and_tell(query, described, done, _total(done, "collect"), lambda: _end(query, described, done))


def on_executors(batch: DataFrame, url: str, *, must_apply: bool = True, keep: bool = True) -> pa.Table:
    """Have the executors judge and apply a batch; returns its summary. `keep=False` is a rehearsal."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        applier = _applier(url) if must_apply else None
        for records in batches:
            yield from _work_off(records, applier, keep).to_batches()

    return batch.mapInArrow(work, _SCHEMA).toArrow()


def _applier(url: str) -> Applier:
    """The connection of this executor's process; that to another cell is given back."""
    for other in _appliers.keys() - {url}:
        _appliers.pop(other).close()
    return _appliers.setdefault(url, Applier(url))


def _work_off(records: pa.RecordBatch, applier: Applier | None, keep: bool) -> pa.Table:
    """Runs on an executor: one chunk, which without an applier is only looked at."""
    started = time.perf_counter()
    staged = pa.Table.from_batches([stage_batch(records)])
    summary = summarise(staged)
    looked = time.perf_counter() - started
    phases = Phases()
    if applier is not None and staged.num_rows:
        chunk = _chunk(summary)
        phases = patiently(NAME, lambda: applier.apply_table(chunk, staged, keep=keep))
    phases.collect = looked
    return _with_seconds(summary, phases)


def _chunk(summary: pa.Table) -> Batch:
    """What was applied before a crash is known by its events, so a chunk needs no position."""
    return Batch(
        query=NAME,
        lane=Lane.LEAF,
        batch_id=0,
        offsets={},
        events=pc.sum(summary["events"]).as_py(),
        dead=pc.sum(summary["dead"]).as_py(),
        newest_event=None,
        ends_here=False,
    )


def _with_seconds(summary: pa.Table, phases: Phases) -> pa.Table:
    """The summary of a chunk with its seconds in its first row."""
    for name, seconds in vars(phases).items():
        column = pa.array([seconds] + [0.0] * (summary.num_rows - 1))
        summary = summary.append_column(name, column.slice(0, summary.num_rows))
    return summary


def _is_known(query: LaneQuery, batch_id: int) -> bool:
    """Whether the database has a batch of this number; `apply_once` looks whether it is the same one."""
    position = query.applier.position(query.name)
    return position is not None and batch_id <= position.batch_id


def _end(query: LaneQuery, batch: Batch, done: pa.Table) -> Phases:
    query.applier.record(batch)
    return Phases(copy=_total(done, "copy"), merge=_total(done, "merge"), commit=_total(done, "commit"))


def _total(done: pa.Table, phase: str) -> float:
    """The seconds all executors together spent on a phase."""
    return float(pc.sum(done[phase]).as_py() or 0.0)
