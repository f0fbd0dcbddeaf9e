"""Reads what applied events did, as entries of the audit: one per batch of events."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import psycopg

from lily.domain.assets import Lane
from lily.domain.audit import AuditEntry
from lily.repositories.postgres.queries import load

_SQL = load("audit.sql")
APPLY = "apply"


class Written(NamedTuple):
    """The next entries, and up to which change they tell; None when there is nothing new."""

    entries: list[AuditEntry]
    position: int | None


def read_writes(connection: psycopg.Connection[Any], lane: Lane, after: int, most: int) -> Written:
    rows = connection.execute(_SQL["read_writes"], {"lane": lane.value, "after": after, "most": most})
    *written, end = rows.fetchall()
    return Written([_entry(row[:-2]) for row in written], end[-1])


def _entry(row: tuple[Any, ...]) -> AuditEntry:
    tenant_id, actor, trace_id, asset_id, at, batch, events, outcomes = row
    return AuditEntry(
        tenant_id=tenant_id,
        actor=actor,
        acting_as="",
        address="",
        action=APPLY,
        resource_kind="asset",
        resource_id=asset_id,
        allowed=True,
        reason=outcomes[0] if events == 1 else _counted(outcomes),
        trace_id=trace_id,
        at=at,
        event_id=batch,
        events=events,
    )


def _counted(outcomes: list[str]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(Counter(outcomes).items()))
