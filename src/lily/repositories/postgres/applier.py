"""Applies one batch of staged events in one transaction: the only writer of assets and changes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa

from lily.domain.assets import Lane
from lily.domain.errors import LilyError
from lily.repositories.postgres.queries import load
from lily.repositories.postgres.rounds import number_rounds

APPLIED_CHANNEL = "lily_applied"

_SQL = load("apply.sql")
# Every lookup is by key and its number is the batch's, so a join that reads a whole table is never right.
PLANS = ("SET enable_hashjoin = off", "SET enable_mergejoin = off", "SET enable_seqscan = off")
_ATTEMPTS = 5
_DEADLOCK = "40P01"


class ConnectionLost(LilyError):
    """PostgreSQL went away; whether a commit got through is not known."""

    code = "connection_lost"
    retryable = True


class _AnotherWrote(Exception):
    """Another lane or executor changed an asset of this batch between reading and writing it."""


@dataclass(frozen=True)
class Batch:
    """What Spark hands over: which batch of which query, and where each partition then stands."""

    query: str
    lane: Lane
    batch_id: int
    offsets: dict[str, int]  # partition → next offset
    events: int
    dead: int
    newest_event: datetime | None
    ends_here: bool = True  # False for a part after which more of the batch is to come

    def position_row(self) -> tuple[str, int, str, int, int, datetime | None, str]:
        offsets = json.dumps(self.offsets)
        counted = self.query, self.batch_id, offsets, self.events, self.dead, self.newest_event
        return *counted, self.lane.value


@dataclass(frozen=True)
class Position:
    """How far a query has come, as the database knows it."""

    batch_id: int
    offsets: dict[str, int]


@dataclass
class Phases:
    """Seconds spent in each phase of one batch; `collect` is Spark's share."""

    collect: float = 0.0
    copy: float = 0.0
    merge: float = 0.0
    commit: float = 0.0


class Applier:
    """One connection to PostgreSQL that applies batches of a lane, or parts of them."""

    #: The table a batch is copied to; dead letters are buried from there.
    staging: ClassVar[str] = "staged_events"
    #: What every connection begins with.
    preparations: ClassVar[tuple[str, ...]] = (*PLANS, _SQL["create_temporary_staging"])

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Any = None

    def position(self, query: str) -> Position | None:
        """How far this query has come; None before its first batch."""
        with self._transaction() as cursor:
            cursor.execute(_SQL["position"], (query,))
            row = cursor.fetchone()
        return Position(int(row[0]), json.loads(row[1])) if row else None

    def apply_table(self, batch: Batch, staged: pa.Table, *, keep: bool = True) -> Phases:
        """Copy a batch over this connection and apply it; `keep=False` rolls it back (a rehearsal)."""
        try:
            return self._in_transaction(batch, staged, keep)
        except adbc.DataError as error:
            if not keep:
                raise
            return self._apply_halves(batch, staged, str(error))

    def _apply_halves(self, batch: Batch, staged: pa.Table, error: str) -> Phases:
        """Corner the event the database cannot take and bury it, so that it does not stop the lane.

        A crash in between does no harm: Spark repeats the batch, and what was applied counts once.
        """
        if staged.num_rows == 1:
            return self.apply_table(replace(batch, dead=batch.dead + 1), _refused(staged, error))
        half = staged.num_rows // 2
        self.apply_table(replace(batch, ends_here=False), staged.slice(0, half))
        return self.apply_table(batch, staged.slice(half))

    def record(self, batch: Batch) -> None:
        """Note that a batch is done whose parts were applied before, unless another leader has noted it."""
        with self._transaction() as cursor:
            cursor.execute(_SQL["hold_position"], (batch.query,))
            noted = cursor.fetchone()
            if noted is not None and noted[0] >= batch.batch_id:
                return
            cursor.execute(_SQL["record_position"], batch.position_row())
            cursor.execute(f"NOTIFY {APPLIED_CHANNEL}")

    def close(self) -> None:
        if self._connection is not None:
            with suppress(adbc.Error):
                self._connection.close()
            self._connection = None

    def _in_transaction(self, batch: Batch, staged: pa.Table, keep: bool) -> Phases:
        for attempt in range(_ATTEMPTS):
            try:
                with self._transaction(keep=keep) as cursor:
                    phases = self._apply(cursor, batch, staged)
                    applied = time.perf_counter()
                phases.commit = time.perf_counter() - applied
                return phases
            except (_AnotherWrote, adbc.IntegrityError, adbc.OperationalError) as error:
                if attempt + 1 == _ATTEMPTS or not _is_conflict(error):
                    raise
        raise AssertionError("unreachable")

    @contextmanager
    def _transaction(self, *, keep: bool = True) -> Iterator[Any]:
        """A cursor whose work is committed at the end, or rolled back."""
        try:
            with self._open() as cursor:
                yield cursor
            self._connection.commit() if keep else self._connection.rollback()
        except Exception as error:
            if self._is_alive():
                self._connection.rollback()
                raise
            self.close()
            raise ConnectionLost(f"PostgreSQL went away: {error}") from error

    def _is_alive(self) -> bool:
        """Whether the connection survived an error; ADBC does not tell by the kind of its exceptions."""
        if self._connection is None:
            return False
        try:
            self._connection.rollback()
            with self._connection.cursor() as cursor:
                cursor.execute("SELECT 1")
                return bool(cursor.fetchone())
        except adbc.Error:
            return False

    def _apply(self, cursor: Any, batch: Batch, staged: pa.Table) -> Phases:
        phases, started = Phases(), time.perf_counter()
        self._copy(cursor, staged)
        copied = time.perf_counter()
        if batch.dead:
            cursor.execute(_SQL["bury_dead_letters"].format(staging=self.staging, lane=batch.lane.value))
        self._merge(cursor, batch.lane)
        if batch.ends_here:
            cursor.execute(_SQL["record_position"], batch.position_row())
        cursor.execute(f"NOTIFY {APPLIED_CHANNEL}")
        phases.copy, phases.merge = copied - started, time.perf_counter() - copied
        return phases

    def _copy(self, cursor: Any, staged: pa.Table) -> None:
        cursor.adbc_ingest(self.staging, number_rounds(staged), mode="append", temporary=True)

    def _merge(self, cursor: Any, lane: Lane) -> None:
        """Make state of what is staged."""
        cursor.execute(_SQL["count_rounds"])
        rounds, purges = cursor.fetchone()
        for number in range(1, rounds + 1):
            cursor.execute(_SQL["apply_round"].format(round=number, lane=lane.value))
            due, applied = cursor.fetchone()
            if due != applied:
                raise _AnotherWrote
        if purges:
            cursor.execute(_SQL["forget_purged"])

    def _open(self) -> Any:
        if self._connection is None:
            self._connection = adbc.connect(self._url)
            with self._connection.cursor() as cursor:
                for statement in self.preparations:
                    cursor.execute(statement)
            self._connection.commit()
        return self._connection.cursor()


def _is_conflict(error: Exception) -> bool:
    """Whether others wrote the same rows at the same moment: of two that wait for each other one is ended."""
    return not isinstance(error, adbc.OperationalError) or error.sqlstate == _DEADLOCK


def _refused(staged: pa.Table, error: str) -> pa.Table:
    """The one event that broke the batch, as a dead letter: with what is left of it as its payload."""
    row = staged.to_pylist()[0]
    kept = ("topic", "partition", "offset", "event_id", "tenant_id", "received_at", "event_time")
    payload = json.dumps({name: value for name, value in row.items() if value is not None}, default=str)
    refused = {name: row[name] for name in kept} | {
        "reason": "not_storable",
        "detail": f"PostgreSQL cannot take it: {error}",
        "payload": payload.encode(),
        "headers": "[]",
    }
    return pa.Table.from_pylist([refused], staged.schema)
