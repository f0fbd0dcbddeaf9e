"""Reads what applied events did, as entries of the audit: one per batch of events."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import psycopg

from lily.domain.assets import Lane
from lily.domain.audit import AuditEntry
from lily.domain.event_ids import size_of
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


def not_yet_told(audit: psycopg.Connection[Any], entries: list[AuditEntry]) -> list[AuditEntry]:
    """Those whose batch is not whole in the audit: a tenant that moved brought its older changes along."""
    named = {"tenants": [e.tenant_id for e in entries], "batches": [e.event_id for e in entries]}
    told = {(row[0], row[1]): row[2] for row in audit.execute(_SQL["count_told"], named)}
    return [
        entry
        for entry in entries
        if entry.event_id is None
        or entry.events + told.get((entry.tenant_id, entry.event_id), 0) <= size_of(entry.event_id)
    ]


def _entry(row: tuple[Any, ...]) -> AuditEntry:
    tenant_id, actor, trace_id, asset_id, at, batch, events, outcomes, counts = row
    return AuditEntry(
        tenant_id=tenant_id,
        actor=actor,
        acting_as="",
        address="",
        action=APPLY,
        resource_kind="asset",
        resource_id=asset_id,
        allowed=True,
        reason=outcomes[0] if events == 1 else _counted(outcomes, counts),
        trace_id=trace_id,
        at=at,
        event_id=batch,
        events=events,
    )


def _counted(outcomes: list[str], counts: list[int]) -> str:
    """The same outcome may be there several times."""
    found: Counter[str] = Counter()
    for outcome, count in zip(outcomes, counts, strict=True):
        found[outcome] += count
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(found.items()))
