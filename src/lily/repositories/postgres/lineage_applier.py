"""Applies one batch of statements about lineage and tags in one transaction: the only writer of edges."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from datetime import datetime
from typing import Any

import psycopg

from lily.domain.assets import Lane
from lily.repositories.postgres.applier import ConnectionLost, Position
from lily.repositories.postgres.queries import load

_SQL = load("lineage_apply.sql")
# Every lookup is by key and its number is the batch's, so a join that reads a whole table is never right.
PLANS = "-c enable_hashjoin=off -c enable_mergejoin=off -c enable_seqscan=off -c jit=off -c timezone=UTC"
_MERGES = (
    "record_events",
    "merge_edge_assertions",
    "merge_edges",
    "merge_tag_assertions",
    "merge_opt_outs",
    "merge_definitions",
)


@dataclass(frozen=True, slots=True)
class StagedStatement:
    """One record, in the order of the staging table's columns; one with a `reason` becomes a dead letter."""

    topic: str
    partition: int
    offset: int
    key: bytes | None = None
    payload: bytes | None = None
    headers: str | None = None
    reason: str | None = None
    detail: str | None = None
    event_id: str | None = None
    tenant_id: str | None = None
    event_time: datetime | None = None
    received_at: datetime | None = None
    actor: str | None = None
    traceparent: str | None = None
    kind: str | None = None
    source: str | None = None
    holds: bool | None = None
    from_id: str | None = None
    to_id: str | None = None
    relationship_type: str | None = None
    tags: list[str] | None = None
    body: str | None = None


_COLUMNS = ", ".join(f'"{field.name}"' for field in fields(StagedStatement))
_COPY = f"COPY staged_statements ({_COLUMNS}) FROM STDIN"


class LineageApplier:
    """One connection to PostgreSQL that applies the batches of the lineage query."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[Any] | None = None

    def position(self, query: str) -> Position | None:
        """How far this query has come; None before its first batch."""
        row = self._open().execute(_SQL["position"], {"query": query}).fetchone()
        return Position(int(row[0]), row[1]) if row else None

    def apply(self, query: str, batch_id: int, staged: Sequence[StagedStatement]) -> bool:
        """Apply the batch unless the database has it already; whether it did."""
        try:
            connection = self._open()
            with connection.transaction(), connection.cursor() as cursor:
                known = cursor.execute(_SQL["position"], {"query": query}).fetchone()
                if known and batch_id <= known[0]:
                    return False
                self._merge(cursor, staged)
                cursor.execute(_SQL["record_position"], _position(query, batch_id, staged))
                cursor.execute(_SQL["notify"])
            return True
        except psycopg.OperationalError as error:
            self.close()
            raise ConnectionLost(f"PostgreSQL went away: {error}") from error

    def apply_anew(self, staged: Sequence[StagedStatement]) -> None:
        """Apply statements whatever the positions say; those already counted change nothing."""
        connection = self._open()
        with connection.transaction(), connection.cursor() as cursor:
            self._merge(cursor, staged)

    def _merge(self, cursor: psycopg.Cursor[Any], staged: Sequence[StagedStatement]) -> None:
        with cursor.copy(_COPY) as copy:
            for statement in staged:
                copy.write_row(astuple(statement))
        if any(statement.reason for statement in staged):
            cursor.execute(_SQL["bury_dead_letters"], {"lane": Lane.LINEAGE.value})
        for name in _MERGES:
            cursor.execute(_SQL[name])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            connection = psycopg.connect(self._url, autocommit=True, options=PLANS)
            connection.execute(_SQL["create_staging"])
            connection.execute(_SQL["create_applying"])
            self._connection = connection
        return self._connection


def _position(query: str, batch_id: int, staged: Sequence[StagedStatement]) -> dict[str, Any]:
    ends: dict[str, int] = {}
    for statement in staged:
        partition = str(statement.partition)
        ends[partition] = max(ends.get(partition, 0), statement.offset + 1)
    times = [statement.event_time for statement in staged if statement.event_time]
    return {
        "query": query,
        "batch_id": batch_id,
        "offsets": json.dumps(ends),
        "events": len(staged),
        "dead": sum(statement.reason is not None for statement in staged),
        "event_time": max(times, default=None),
    }
