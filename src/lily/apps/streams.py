"""The streams process: Spark's queries over the log, and the relays that tell what they changed.

Several may run: one leads, the others stand by with a warm session and take over when it dies.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import structlog
from psycopg.types.json import Jsonb
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lily.apps.processes import collect_seldom, parser_of, run_process
from lily.domain.errors import LilyError
from lily.domain.tenants import Cell
from lily.pipeline.cells import FORGIVEN_SECONDS, CellQueries
from lily.pipeline.jobs import structural
from lily.pipeline.jobs.audit import AuditCopies
from lily.pipeline.session import start_session
from lily.pipeline.warm_up import warm_up
from lily.repositories.iceberg.catalog import CREATE_AUDIT
from lily.repositories.postgres.leadership import Leadership
from lily.repositories.postgres.queries import load
from lily.repositories.postgres.tenant_admin import TenantAdmin
from lily.settings import STANDBY_MARKER, Settings
from lily.standalone.priorities import give_way
from lily.tenancy.cells import cell_settings

COMPONENT = "streams"
_BEAT_SECONDS = 2.0
_LOOK_SECONDS = 0.1
_BEAT = load("heartbeats.sql")["beat"]

_log = structlog.get_logger(__name__)


def run(settings: Settings, after: Path | None) -> None:
    """Run until a query keeps failing; whoever started this process starts it again.

    The database is not used before the file `after` is there: Spark starts while its tables are made.
    """
    url = settings.database.url.get_secret_value()
    leadership = Leadership(url)
    shared = CellQueries(settings, settings)
    with ThreadPoolExecutor() as beside:
        claim = beside.submit(_claim, settings, leadership, shared, after)
        session = start_session(settings)
        claim.result()
        tables = beside.submit(_create_tables, session, shared)
        warm_up(session, shared.lanes[structural.NAME], url)
        tables.result()
    give_way()  # only now: until it is up, everybody waits for this process
    collect_seldom()
    _stand_by(settings, leadership)
    shared.check()
    shared.start(session)
    AuditCopies(session, url).start()
    cells = DedicatedCells(settings, session)
    while True:
        cells.follow()
        if not shared.revive():
            _beat(settings, "failed", shared.states())
            sys.exit(1)
        well = cells.revive() and not shared.failed_lately
        _beat(settings, "healthy" if well else "degraded", shared.states() | cells.states())
        time.sleep(_BEAT_SECONDS)


def _claim(settings: Settings, leadership: Leadership, shared: CellQueries, after: Path | None) -> None:
    """Ask for the lead; whoever gets it makes sure that everything can be continued, another gives way."""
    while after is not None and not after.exists():
        time.sleep(_LOOK_SECONDS)
    leadership.start()
    if leadership.is_ours(within=1.0):
        shared.check()
        _beat(settings, "starting", {})
    else:
        give_way()


def _stand_by(settings: Settings, leadership: Leadership) -> None:
    """Return when this process leads, which is at once when no other does."""
    if not leadership.is_ours():
        marker = settings.data_dir / "run" / STANDBY_MARKER
        marker.touch()
        _log.info("standing_by")
        leadership.wait()
        marker.unlink(missing_ok=True)
        _log.info("takes_over")


def _create_tables(session: SparkSession, shared: CellQueries) -> None:
    shared.create_tables(session)
    for statement in CREATE_AUDIT:
        session.sql(statement)


class DedicatedCells:
    """The queries of the dedicated cells: one that fails is left alone and does not take the others along."""

    def __init__(self, settings: Settings, session: SparkSession) -> None:
        self._settings = settings
        self._session = session
        self._admin = TenantAdmin(settings.database.url.get_secret_value())
        self._running: dict[str, CellQueries] = {}
        self._failed: dict[str, float] = {}

    def follow(self) -> None:
        """Start the queries of cells that were made, stop those of cells that are gone."""
        try:
            cells = self._admin.cells()
        except psycopg.Error as error:
            _log.warning("cells_unknown", error=str(error))
            return
        for name in self._running.keys() - cells.keys():
            self._running.pop(name).stop()
            _log.info("cell_stopped", cell=name)
        for name in cells.keys() - self._running.keys():
            if self._failed.get(name, 0.0) < time.monotonic():
                self._start(cells[name])

    def revive(self) -> bool:
        """Whether all are well."""
        revived = [queries.revive() and not queries.failed_lately for queries in self._running.values()]
        return all(revived) and not self._failed

    def states(self) -> dict[str, str]:
        return {
            f"{cell}/{name}": state
            for cell, queries in self._running.items()
            for name, state in queries.states().items()
        }

    def _start(self, cell: Cell) -> None:
        queries = CellQueries(cell_settings(self._settings, cell), self._settings)
        try:
            queries.check()
            queries.create_tables(self._session)
            queries.start(self._session)
        except (LilyError, PySparkException, psycopg.Error) as error:
            _log.error("cell_not_started", cell=cell.name, error=str(error))
            queries.stop()
            self._failed[cell.name] = time.monotonic() + FORGIVEN_SECONDS
            return
        self._failed.pop(cell.name, None)
        self._running[cell.name] = queries
        _log.info("cell_started", cell=cell.name)


def _beat(settings: Settings, status: str, queries: dict[str, str]) -> None:
    """A missed beat is not fatal: the database may be restarting, and the queries wait for it."""
    details = {"queries": queries}
    try:
        with psycopg.connect(settings.database.url.get_secret_value(), connect_timeout=2) as connection:
            connection.execute(_BEAT, {"component": COMPONENT, "status": status, "details": Jsonb(details)})
    except psycopg.Error as error:
        _log.warning("heartbeat_missed", error=str(error))


def main() -> None:
    parser = parser_of(COMPONENT, __doc__)
    parser.add_argument("--after", type=Path, help="do not use the database before this file is there")
    options = parser.parse_args()
    run_process(COMPONENT, options.data_dir, lambda settings: run(settings, options.after))


if __name__ == "__main__":
    main()
