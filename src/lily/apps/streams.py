"""The streams process: Spark's queries over the log, and the relays that tell what they changed."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psycopg
import structlog
from psycopg.types.json import Jsonb
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lily.domain.assets import Lane
from lily.domain.errors import LilyError
from lily.pipeline.checkpoints import check_checkpoint
from lily.pipeline.jobs import archive, history, leaf, lineage, structural
from lily.pipeline.jobs.audit import AuditCopies
from lily.pipeline.lake import Lake
from lily.pipeline.lanes import LaneQuery
from lily.pipeline.propagation import Propagation
from lily.pipeline.relay import Relay
from lily.pipeline.session import start_session
from lily.pipeline.warm_up import warm_up
from lily.pipeline.write_audit import WriteAudit
from lily.repositories.iceberg.catalog import CREATE_TABLES
from lily.repositories.postgres.applier import Applier
from lily.repositories.postgres.lineage_applier import LineageApplier
from lily.repositories.postgres.queries import load
from lily.settings import Settings, load_settings
from lily.telemetry import configure_logging, configure_tracing

COMPONENT = "streams"
_BEAT_SECONDS = 2.0
_FORGIVEN_SECONDS = 60.0
_MOST_FAILURES = 5
_BEAT = load("heartbeats.sql")["beat"]

_log = structlog.get_logger(__name__)


def run(settings: Settings) -> None:
    """Run until a query fails; whoever started this process starts it again."""
    lake = Lake()
    followers = {
        lane: (Relay(settings, lane, lambda: lake.note(0)), WriteAudit(settings, lane)) for lane in Lane
    }
    url = settings.database.url.get_secret_value()
    lanes = {
        name: LaneQuery(name, lane, Applier(url), partial(_tell, followers[lane], lake))
        for name, lane in ((structural.NAME, Lane.STRUCTURAL), (leaf.NAME, Lane.LEAF))
    }
    statements = lineage.LineageQuery(LineageApplier(url), partial(_tell, followers[Lane.LINEAGE], lake))
    checkpoints = Path(settings.spark.checkpoints)
    check_checkpoint(checkpoints / lineage.NAME, lineage.NAME, statements.applier.position(lineage.NAME))
    for name, query in lanes.items():
        check_checkpoint(checkpoints / name, name, query.applier.position(name))
    _beat(settings, "starting", {})
    session = start_session(settings)
    with ThreadPoolExecutor() as beside:
        tables = beside.submit(_create_tables, session)
        warm_up(session, lanes[structural.NAME], lanes[leaf.NAME], url)
        tables.result()
    starters: dict[str, Callable[[], StreamingQuery]] = {
        structural.NAME: lambda: structural.start(session, settings, lanes[structural.NAME]),
        leaf.NAME: lambda: leaf.start(session, settings, lanes[leaf.NAME]),
        lineage.NAME: lambda: lineage.start(session, settings, statements),
    }
    queries = {name: start() for name, start in starters.items()}
    for relay, write_audit in followers.values():
        relay.start()
        write_audit.start()
    AuditCopies(session, url).start()
    Propagation(settings, followers[Lane.LINEAGE][0].wake).start()
    lake.start({job.NAME: partial(job.start, session, settings) for job in (history, archive)})
    _watch(settings, starters, queries, lake)


def _tell(followers: tuple[Relay, WriteAudit], lake: Lake, events: int) -> None:
    """A batch of so many events is visible now."""
    for follower in followers:
        follower.wake()
    lake.note(events)


def _create_tables(session: SparkSession) -> None:
    for statement in CREATE_TABLES:
        session.sql(statement)


def _watch(
    settings: Settings,
    starters: dict[str, Callable[[], StreamingQuery]],
    queries: dict[str, StreamingQuery],
    lake: Lake,
) -> None:
    """Start a failed query again; give up when one keeps failing, and let the supervisor start afresh."""
    failures: list[float] = []
    while True:
        for name in [name for name, query in queries.items() if not query.isActive]:
            _log.error("query_failed", query=name, error=str(queries[name].exception()))
            failures = [*(at for at in failures if at > _forgiven_before()), time.monotonic()]
            if len(failures) > _MOST_FAILURES:
                _beat(settings, "failed", queries)
                sys.exit(1)
            queries[name] = starters[name]()
        failed_lately = lake.failed_after(_forgiven_before()) or any(
            at > _forgiven_before() for at in failures
        )
        _beat(settings, "degraded" if failed_lately else "healthy", queries)
        time.sleep(_BEAT_SECONDS)


def _forgiven_before() -> float:
    return time.monotonic() - _FORGIVEN_SECONDS


def _beat(settings: Settings, status: str, queries: dict[str, StreamingQuery]) -> None:
    """A missed beat is not fatal: the database may be restarting, and the queries wait for it."""
    details = {"queries": {name: "running" if q.isActive else "stopped" for name, q in queries.items()}}
    try:
        with psycopg.connect(settings.database.url.get_secret_value(), connect_timeout=2) as connection:
            connection.execute(_BEAT, {"component": COMPONENT, "status": status, "details": Jsonb(details)})
    except psycopg.Error as error:
        _log.warning("heartbeat_missed", error=str(error))


def main() -> None:
    parser = argparse.ArgumentParser(prog="lily-streams", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    settings = load_settings(parser.parse_args().data_dir.absolute())
    configure_logging(COMPONENT, settings.telemetry.log_level)
    configure_tracing(COMPONENT, settings.telemetry.otlp_endpoint, settings.telemetry.trace_ratio)
    try:
        run(settings)
    except LilyError as error:
        _log.error("cannot_run", error=error.message)
        sys.exit(1)


if __name__ == "__main__":
    main()
