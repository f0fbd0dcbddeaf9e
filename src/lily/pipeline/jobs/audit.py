"""Keeps the audit in the lake, too: a copy that whoever administers the database does not administer.

Each chain is followed by its numbers, which have no gaps, so that an entry is copied once. What the lake has
is asked at start, and remembered from then on.
"""

from __future__ import annotations

import threading
import time

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
import pyarrow.compute as pc
import structlog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lily.pipeline.session import HISTORY_POOL
from lily.repositories.iceberg.catalog import AUDIT
from lily.repositories.postgres.audit_copies import read_beyond

NAME = "audit"
#: An Iceberg commit takes 0.7 to 0.9 s however small it is, and the audit is never idle.
_PAUSE_SECONDS = 60.0
_MOST = 50_000

_log = structlog.get_logger(__name__)


class AuditCopies:
    """Copies what is new; one per installation."""

    def __init__(self, session: SparkSession, url: str) -> None:
        self._session = session
        self._url = url
        self._copied: dict[str, int] | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="audit-copies", daemon=True).start()

    def _run(self) -> None:
        self._session.sparkContext.setLocalProperty("spark.scheduler.pool", HISTORY_POOL)
        while True:
            try:
                self.copy()
            except (PySparkException, adbc.Error) as error:
                self._copied = None  # whether the last commit got through is not known: ask the lake
                _log.warning("audit_copy_interrupted", error=str(error))
            time.sleep(_PAUSE_SECONDS)

    def copy(self) -> int:
        """Bring the entries there are to the lake; returns how many were new.

        What is added meanwhile waits for the next time: there is always something.
        """
        if self._copied is None:
            rows = self._session.sql(f"SELECT tenant_id, max(seq) FROM {AUDIT} GROUP BY tenant_id").collect()
            self._copied = {tenant: seq for tenant, seq in rows}  # noqa: C416 - rows are not pairs to mypy
        new = 0
        while entries := self._next(self._copied):
            self._session.createDataFrame(entries).writeTo(AUDIT).append()
            self._copied |= _ends(entries)
            new += len(entries)
            if len(entries) < _MOST:
                break
        return new

    def _next(self, copied: dict[str, int]) -> pa.Table:
        return read_beyond(self._url, copied, _MOST)


def _ends(entries: pa.Table) -> dict[str, int]:
    ends = entries.group_by("tenant_id").aggregate([("seq", "max")])
    return dict(
        zip(ends["tenant_id"].to_pylist(), pc.cast(ends["seq_max"], "int64").to_pylist(), strict=True)
    )
