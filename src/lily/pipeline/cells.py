"""The queries of one cell, and what follows them: relays, write audit, lake, and the counting of usage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lily.domain.assets import Lane
from lily.pipeline.checkpoints import check_checkpoint
from lily.pipeline.jobs import archive, history, leaf, lineage, structural
from lily.pipeline.lake import Lake
from lily.pipeline.lanes import LaneQuery, patiently
from lily.pipeline.pressures import Pressure
from lily.pipeline.propagation import Propagation
from lily.pipeline.relay import Relay
from lily.pipeline.usage import UsageCounter
from lily.pipeline.write_audit import WriteAudit
from lily.repositories.iceberg.catalog import create_tables
from lily.repositories.postgres.applier import Applier
from lily.repositories.postgres.lineage_applier import LineageApplier
from lily.settings import Settings

FORGIVEN_SECONDS = 60.0
MOST_FAILURES = 5
#: Batches of more events than this mean that the lake waits, and those who follow columns.
_QUEUE, _FLOOD = 500, 10_000

_log = structlog.get_logger(__name__)


class CellQueries:
    """`settings` are those of the cell, `shared` those of the shared one, which may be the same."""

    def __init__(self, settings: Settings, shared: Settings) -> None:
        self._settings = settings
        self._pressure, self._flood = Pressure(_QUEUE), Pressure(_FLOOD)
        self._lake = Lake(self._pressure)
        self._usage = UsageCounter(settings, shared)
        # Who follows columns gives way to a flood of them: that a table is told must not wait for it.
        floods = {Lane.LEAF: self._flood}
        self._relays = {
            lane: Relay(settings, lane, lambda: self._lake.note(0), floods.get(lane)) for lane in Lane
        }
        # Of edges and tags the requests are in the audit; only assets have a ledger of changes.
        self._audits = {
            lane: WriteAudit(settings, shared, lane, floods.get(lane))
            for lane in (Lane.STRUCTURAL, Lane.LEAF)
        }
        url = settings.database.url.get_secret_value()
        self.lanes = {
            name: LaneQuery(name, lane, Applier(url), partial(self._tell, lane), partial(self._at_work, lane))
            for name, lane in ((structural.NAME, Lane.STRUCTURAL), (leaf.NAME, Lane.LEAF))
        }
        self.lanes[lineage.NAME] = LaneQuery(
            lineage.NAME,
            Lane.LINEAGE,
            LineageApplier(url),
            partial(self._tell, Lane.LINEAGE),
            partial(self._at_work, Lane.LINEAGE),
        )
        self._propagation = Propagation(settings, self._relays[Lane.LINEAGE].wake)
        self._starters: dict[str, Callable[[], StreamingQuery]] = {}
        self._queries: dict[str, StreamingQuery] = {}
        self._failures: list[float] = []

    def check(self) -> None:
        """Raise unless every checkpoint continues where the database stands; wait while that is away."""
        patiently("all", self._check)  # of one that stood by, the connections may be long dead

    def _check(self) -> None:
        positions = {name: query.applier.position(name) for name, query in self.lanes.items()}
        for name, position in positions.items():
            check_checkpoint(Path(self._settings.spark.checkpoints) / name, name, position)

    def create_tables(self, session: SparkSession) -> None:
        for statement in create_tables(self._settings.lake.namespace):
            session.sql(statement)

    def start(self, session: SparkSession) -> None:
        settings = self._settings
        self._starters = {
            structural.NAME: lambda: structural.start(session, settings, self.lanes[structural.NAME]),
            leaf.NAME: lambda: leaf.start(session, settings, self.lanes[leaf.NAME]),
            lineage.NAME: lambda: lineage.start(session, settings, self.lanes[lineage.NAME]),
        }
        self._queries = {name: start() for name, start in self._starters.items()}
        for follower in self._threads():
            follower.start()
        self._lake.start({job.NAME: partial(job.start, session, settings) for job in (history, archive)})

    def stop(self) -> None:
        """Stop the queries and what follows them; nothing is lost, they would go on where they were."""
        for query in self._queries.values():
            query.stop()
        for follower in self._threads():
            follower.stop()
        self._lake.stop()
        for lane in self.lanes.values():
            lane.applier.close()

    def revive(self) -> bool:
        """Start failed queries again; false when they keep failing, and are left alone for a while."""
        self._failures = [at for at in self._failures if at > time.monotonic() - FORGIVEN_SECONDS]
        for name in [name for name, query in self._queries.items() if not query.isActive]:
            if len(self._failures) >= MOST_FAILURES:
                return False
            _log.error("query_failed", query=name, error=str(self._queries[name].exception()))
            self._failures.append(time.monotonic())
            self._queries[name] = self._starters[name]()
        return True

    @property
    def failed_lately(self) -> bool:
        return bool(self._failures) or self._lake.failed_after(time.monotonic() - FORGIVEN_SECONDS)

    def states(self) -> dict[str, str]:
        return {name: "running" if q.isActive else "stopped" for name, q in self._queries.items()}

    def _threads(self) -> list[Any]:
        return [
            self._usage,
            self._propagation,
            *self._relays.values(),
            *self._audits.values(),
        ]

    @contextmanager
    def _at_work(self, lane: Lane) -> Iterator[None]:
        with self._pressure.at_work(), self._flood.at_work() if lane is Lane.LEAF else nullcontext():
            yield

    def _tell(self, lane: Lane, events: int) -> None:
        """A batch of so many events is visible now."""
        self._pressure.note(events)
        if lane is Lane.LEAF:
            self._flood.note(events)
        self._relays[lane].wake()
        if lane in self._audits:
            self._audits[lane].wake()
        self._lake.note(events)
