"""Keeps the effective tags equal to what follows from everything said: reads what changed, repairs, tells.

Most changes of most tenants are followed together. A tenant with more to do than others should wait for is
followed by itself, beside them, until it has caught up (ADR 28).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from lily.domain.assets import Lane
from lily.repositories.postgres.queries import load

_SQL = load("propagation.sql")
LISTEN = _SQL["listen"]
# Every lookup is by key and its number is the batch's, so a join that reads a whole table is never right.
# Work tables of 100,000 facts stay in memory.
PLANS = (
    "-c enable_hashjoin=off -c enable_mergejoin=off -c enable_seqscan=off -c jit=off -c timezone=UTC"
    " -c temp_buffers=64MB"
)
#: How much of a lane is looked at in one transaction.
MOST_CHANGES = 20_000
#: How many facts may follow before a tenant is followed by itself: about a quarter of a second.
MOST_TOGETHER = 5_000
#: After so many facts progress is reported (functions/propagation.sql).
STEP = 50_000
#: About how many changes of such a tenant are told in one transaction.
MOST_TOLD = 10_000

Report = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a lane: the changes after one seq up to another, of one tenant or of all but those apart."""

    lane: str
    after: int
    upto: int
    tenant_id: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """What one run did: facts taken away, and what changed: tags of assets, the asset of an incident.

    `passed_on` are changes of earlier runs that are only now to be told.
    """

    taken: int
    told: int
    passed_on: int = 0


@dataclass(frozen=True, slots=True)
class _Apart:
    """A tenant that is followed by itself: how far it is in each lane, and whether others are no further."""

    tenant_id: str
    seqs: dict[str, int]
    is_caught_up: bool

    def spans(self, ends: dict[str, int]) -> list[Span]:
        return [Span(lane, self.seqs[lane], end, self.tenant_id) for lane, end in ends.items()]


class TooMuch(Exception):
    """More follows from what this tenant said than others should wait for."""

    def __init__(self, tenant_id: str) -> None:
        super().__init__(tenant_id)
        self.tenant_id = tenant_id


class Propagator:
    """One connection; one run is one transaction over a snapshot, so a crash leaves nothing half done.

    `report` is told whose tags take long, and how many facts have come or gone since. `has_apart`: whether
    some tenant is followed by itself, as the last run knew.
    """

    def __init__(
        self,
        url: str,
        report: Callable[[str, int], None] = lambda *_: None,
        most_together: int = MOST_TOGETHER,
    ) -> None:
        self.has_apart = False
        self._url = url
        self._report = report
        self._most = most_together
        self._connection: psycopg.Connection[Any] | None = None

    def run(self) -> Done | None:
        """Follow up what changed since the last run, of all tenants that keep up; None when nothing did."""
        connection = self._open()
        try:
            with connection.transaction(), connection.cursor() as cursor:
                return self._follow(cursor)
        except TooMuch as much:
            with connection.transaction():
                connection.execute(_SQL["fall_behind"], {"tenant_id": much.tenant_id})
            return Done(0, 0)

    def run_apart(self) -> Done | None:
        """Follow up what changed for one tenant that is followed by itself; None when there is none."""
        connection = self._open()
        with connection.transaction(), connection.cursor() as cursor:
            for tenant in _apart(cursor):
                if not tenant.is_caught_up:
                    return self._follow_alone(cursor, tenant)
        return None

    def _follow(self, cursor: psycopg.Cursor[Any]) -> Done | None:
        passed_on = cursor.execute(_SQL["tell_some"], {"most": MOST_TOLD}).rowcount
        lanes = cursor.execute(_SQL["last_seqs"]).fetchall()
        ends = {lane: max(after, min(last or 0, after + MOST_CHANGES)) for lane, after, last in lanes}
        apart = _apart(cursor)
        self.has_apart = bool(apart)
        rejoining = [tenant for tenant in apart if tenant.is_caught_up]
        spans = [Span(lane, after, ends[lane]) for lane, after, _ in lanes if ends[lane] > after]
        if not (spans or rejoining):
            return Done(0, 0, passed_on) if passed_on else None
        moved = sum(_attach(cursor, span) for span in spans)
        behind = [span for tenant in rejoining for span in tenant.spans(ends)]
        done = self._propagate(cursor, [*spans, *behind], [tenant.tenant_id for tenant in apart], self._most)
        for span in spans:
            cursor.execute(_SQL["keep_position"], {"lane": span.lane, "seq": span.upto})
        cursor.execute(_SQL["rejoin"], {"tenants": [tenant.tenant_id for tenant in rejoining]})
        cursor.execute(_SQL["notify"])
        return Done(done.taken, done.told + moved, passed_on)

    def _follow_alone(self, cursor: psycopg.Cursor[Any], tenant: _Apart) -> Done:
        """It asks to rejoin when a short run has brought it to where the others are."""
        lanes = cursor.execute(_SQL["last_seqs"]).fetchall()
        ends = {lane: min(after, tenant.seqs[lane] + MOST_CHANGES) for lane, after, _ in lanes}
        done = self._propagate(cursor, tenant.spans(ends), [], None)
        for lane, end in ends.items():
            at = {"tenant_id": tenant.tenant_id, "lane": lane, "seq": end}
            cursor.execute(_SQL["catch_up"], at)
        if done.taken + done.told <= self._most and all(ends[lane] == after for lane, after, _ in lanes):
            cursor.execute(_SQL["ask_to_rejoin"], {"tenant_id": tenant.tenant_id})
        cursor.execute(_SQL["notify"])
        return done

    def _propagate(
        self, cursor: psycopg.Cursor[Any], spans: Iterable[Span], apart: list[str], most: int | None
    ) -> Done:
        """`most` bounds what may follow; without it, what is to be told is left to be put in order."""
        who, collected = "", 0
        for span in spans:
            collected += _collect(cursor, span, apart)
            who = span.tenant_id or who
        if collected > 1:
            cursor.execute(_SQL["unite_changed_assets"])
        tell = "tell" if most is not None else "tell_later"
        told = _tell(cursor, tell, "settle_lone_assets")
        if not _value(cursor, _SQL["is_anything_left"]):
            return Done(0, told)
        if most is not None and _value(cursor, "SELECT is_wide_rule(%s)", most):
            raise TooMuch(_value(cursor, "SELECT busiest_tenant(%s)", most))
        cursor.execute("SELECT review_refinements(), find_losses()")
        self._repeat(cursor, "SELECT take_away(%s, %s)", most, who)
        cursor.execute("SELECT find_gains()")
        self._repeat(cursor, "SELECT add_onward(%s, %s)", most, who)
        taken = _value(cursor, "SELECT count(*) FROM lost_facts")
        return Done(taken, told + _tell(cursor, tell, "seen_differently"))

    def _repeat(self, cursor: psycopg.Cursor[Any], statement: str, most: int | None, who: str) -> None:
        """Go on round by round until there is nothing left."""
        start: int | None = 0
        while start is not None:
            start = _value(cursor, statement, start, most)
            if start == -1:
                raise TooMuch(_value(cursor, "SELECT busiest_tenant(%s)", most))
            if start is not None:
                self._report(who, STEP)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            connection = psycopg.connect(self._url, autocommit=True, options=PLANS)
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute(_SQL["create_work_tables"])
            self._connection = connection
        return self._connection


def _apart(cursor: psycopg.Cursor[Any]) -> list[_Apart]:
    return [_Apart(*row) for row in cursor.execute(_SQL["list_arrears"])]


def _collect(cursor: psycopg.Cursor[Any], span: Span, apart: list[str]) -> int:
    """How many times assets were collected: more than once, and one may be there twice."""
    where = {"lane": span.lane, "after": span.after, "upto": span.upto}
    where |= {"tenant_id": span.tenant_id, "apart": apart}
    if span.lane != Lane.LINEAGE.value:
        return int(cursor.execute(_SQL["collect_asset_changes"], where).rowcount > 0)
    cursor.execute(_SQL["collect_edge_changes"], where)
    names = ("collect_tagged_assets", "collect_rule_changes")
    return sum(cursor.execute(_SQL[name], where).rowcount > 0 for name in names)


def _tell(cursor: psycopg.Cursor[Any], tell: str, differences: str) -> int:
    """How many changes there are to tell: first of assets without facts and edges, then of others."""
    statement = sql.SQL(_SQL[tell]).format(differences=sql.Identifier(differences))
    cursor.execute(statement)
    if cursor.description is None:
        return cursor.rowcount
    return sum(changes for (changes,) in cursor)


def _attach(cursor: psycopg.Cursor[Any], span: Span) -> int:
    """How many incidents are about another asset than before, after what changed in this part of a lane."""
    where = {"lane": span.lane, "after": span.after, "upto": span.upto}
    row = cursor.execute(_SQL["attach_incidents"], where).fetchone()
    return int(row[0]) if row else 0


def _value(cursor: psycopg.Cursor[Any], statement: str, *parameters: object) -> Any:
    row = cursor.execute(statement.encode(), parameters).fetchone()
    return row[0] if row else None
