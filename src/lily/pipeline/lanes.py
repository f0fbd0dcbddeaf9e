"""What the queries of the lanes share: decoding, the batch ledger, and telling what was done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from lily.domain.assets import Lane
from lily.domain.errors import MisconfiguredError
from lily.pipeline.summaries import summarise
from lily.pipeline.traces import trace_applied
from lily.repositories.postgres.applier import Applier, Batch, ConnectionLost, Phases
from lily.telemetry import BATCH_SECONDS, EVENTS_APPLIED, EVENTS_DEAD, VISIBLE_SECONDS

T = TypeVar("T")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class LaneQuery:
    """A lane's query: its name is also that of its checkpoint and of its row in the ledger."""

    name: str
    lane: Lane
    applier: Applier
    after_commit: Callable[[int], None]
    #: Entered for as long as a batch is at hand.
    at_work: Callable[[], AbstractContextManager[None]] = nullcontext


def describe(query: LaneQuery, batch_id: int, summary: pa.Table) -> Batch:
    """What the ledger keeps of a batch (summaries.SCHEMA)."""
    ends = summary.group_by("partition").aggregate([("next_offset", "max")]).to_pylist()
    return Batch(
        query=query.name,
        lane=query.lane,
        batch_id=batch_id,
        offsets={str(end["partition"]): end["next_offset_max"] for end in ends},
        events=pc.sum(summary["events"]).as_py() or 0,
        dead=pc.sum(summary["dead"]).as_py() or 0,
        newest_event=pc.max(summary["newest_event"]).as_py(),
    )


def apply_in_driver(query: LaneQuery, batch_id: int, collect: Callable[[], pa.Table]) -> None:
    """Collect a batch as one staged Arrow table and apply it."""
    with query.at_work():
        started = time.perf_counter()
        staged = collect()
        collected = time.perf_counter() - started
        summary = summarise(staged)
        batch = describe(query, batch_id, summary)
        apply_and_tell(query, batch, summary, collected, lambda: query.applier.apply_table(batch, staged))


def apply_and_tell(
    query: LaneQuery, batch: Batch, summary: pa.Table, collected: float, apply: Callable[[], Phases]
) -> None:
    """Apply what took so long to collect; a batch that Spark repeats after a crash changes nothing."""
    phases = apply_once(query, batch, apply) if batch.events else None
    if phases is not None:
        phases.collect = collected
        tell(query, batch, phases, summary)


def apply_once(query: LaneQuery, batch: Batch, apply: Callable[[], Phases]) -> Phases | None:
    """Apply the batch unless the database has it already; wait as long as the database is away.

    The question is asked again after a lost connection: the commit may have got through.
    """
    return patiently(query.name, lambda: None if _is_applied(query, batch) else apply())


def patiently(query: str, act: Callable[[], T]) -> T:
    """Do it, again and again as long as the database is away."""
    for pause in pauses():
        try:
            return act()
        except ConnectionLost as error:
            _log.warning("database_away", query=query, error=error.message)
            time.sleep(pause)
    raise AssertionError("unreachable")


def pauses() -> Iterator[float]:
    """How long to wait between attempts, for ever."""
    yield from (0.1, 0.2, 0.5)
    while True:
        yield 1.0


def _is_applied(query: LaneQuery, batch: Batch) -> bool:
    """Whether this batch is in the database; a batch number that came back with other events is refused."""
    position = query.applier.position(query.name)
    if position is None or batch.batch_id > position.batch_id:
        return False
    if any(end > position.offsets.get(partition, 0) for partition, end in batch.offsets.items()):
        raise MisconfiguredError(
            f"the checkpoint of {query.name} is older than the database: batch {batch.batch_id} was "
            "applied with other events. Nothing was changed. Stop Lily and run `./lily replay`.",
            query=query.name,
        )
    _log.info("batch_repeated", query=query.name, batch_id=batch.batch_id)
    return True


def tell(query: LaneQuery, batch: Batch, phases: Phases, summary: pa.Table) -> None:
    """Metrics, traces and a wake-up for the relay, for a batch that is now visible."""
    lane = query.lane.value
    EVENTS_APPLIED.labels(lane).inc(batch.events - batch.dead)
    EVENTS_DEAD.labels(lane).inc(batch.dead)
    for phase, seconds in vars(phases).items():
        BATCH_SECONDS.labels(lane, phase).observe(seconds)
    now = datetime.now(UTC)
    # The slowest and the quickest event of each partition stand for the batch: not row by row.
    for received in (*summary["oldest_received"].to_pylist(), *summary["newest_received"].to_pylist()):
        VISIBLE_SECONDS.labels(lane).observe(max(0.0, (now - received).total_seconds()))
    trace_applied(query.name, pc.list_flatten(summary["traces"]).to_pylist())
    query.after_commit(batch.events)
    _log.debug(
        "batch_applied", query=query.name, batch_id=batch.batch_id, events=batch.events, dead=batch.dead
    )
