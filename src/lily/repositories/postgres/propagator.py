"""Keeps the effective tags equal to what follows from everything said: reads what changed, repairs, tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from lily.domain.assets import Lane
from lily.repositories.postgres.queries import load

_SQL = load("propagation.sql")
LISTEN = _SQL["listen"]
# Every lookup is by key and its number is the batch's, so a join that reads a whole table is never right.
_PLANS = "-c enable_hashjoin=off -c enable_mergejoin=off -c enable_seqscan=off -c jit=off -c timezone=UTC"
#: How much of a lane is looked at in one transaction, and how many facts are added between two reports.
MOST_CHANGES = 20_000
MOST_FACTS = 50_000


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a lane: the changes after one seq up to another."""

    lane: str
    after: int
    upto: int


@dataclass(frozen=True, slots=True)
class Done:
    """What one run did: facts taken away, and what is told: assets with other tags, incidents with another
    asset."""

    taken: int
    told: int


class Propagator:
    """One connection; one run is one transaction over a snapshot, so a crash leaves nothing half done."""

    def __init__(self, url: str, report: Callable[[int], None] = lambda _: None) -> None:
        self._url = url
        self._report = report
        self._connection: psycopg.Connection[Any] | None = None

    def run(self) -> Done | None:
        """Follow up what changed since the last run; None when nothing did."""
        connection = self._open()
        with connection.transaction(), connection.cursor() as cursor:
            return self._follow(cursor)

    def _follow(self, cursor: psycopg.Cursor[Any]) -> Done | None:
        spans = _spans(cursor)
        if not spans:
            return None
        for span in spans:
            _collect(cursor, span)
        moved = sum(_attach(cursor, span) for span in spans)
        taken, told = self._propagate(cursor)
        for span in spans:
            cursor.execute(_SQL["keep_position"], {"lane": span.lane, "seq": span.upto})
        cursor.execute(_SQL["notify"])
        return Done(taken, told + moved)

    def _propagate(self, cursor: psycopg.Cursor[Any]) -> tuple[int, int]:
        cursor.execute("SELECT review_refinements(), find_losses()")
        taken = _number(cursor, "SELECT take_away()")
        cursor.execute("SELECT find_gains()")
        start: int | None = 0
        while start is not None:
            row = cursor.execute("SELECT add_onward(%s, %s)", (start, MOST_FACTS)).fetchone()
            start = row[0] if row else None
            if start is not None:
                self._report(MOST_FACTS)
        return taken, _number(cursor, "SELECT record_tag_changes()")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            connection = psycopg.connect(self._url, autocommit=True, options=_PLANS)
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute(_SQL["create_work_tables"])
            self._connection = connection
        return self._connection


def _spans(cursor: psycopg.Cursor[Any]) -> list[Span]:
    lanes = cursor.execute(_SQL["last_seqs"]).fetchall()
    return [
        Span(lane, after, min(last, after + MOST_CHANGES))
        for lane, after, last in lanes
        if last is not None and last > after
    ]


def _collect(cursor: psycopg.Cursor[Any], span: Span) -> None:
    where = {"lane": span.lane, "after": span.after, "upto": span.upto}
    if span.lane != Lane.LINEAGE.value:
        cursor.execute(_SQL["collect_asset_changes"], where)
        return
    for name in ("collect_edge_changes", "collect_tagged_assets", "collect_rule_changes"):
        cursor.execute(_SQL[name], where)


def _attach(cursor: psycopg.Cursor[Any], span: Span) -> int:
    """How many incidents are about another asset than before, after what changed in this part of a lane."""
    where = {"lane": span.lane, "after": span.after, "upto": span.upto}
    row = cursor.execute(_SQL["attach_incidents"], where).fetchone()
    return int(row[0]) if row else 0


def _number(cursor: psycopg.Cursor[Any], statement: str) -> int:
    row = cursor.execute(statement.encode()).fetchone()
    return int(row[0]) if row else 0
