"""Counts what tenants have, now and then, so that asking for it is cheap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import psycopg

from lily.repositories.postgres.queries import load

_SQL = load("usage.sql")
_RELAY = load("relay.sql")


class Span(NamedTuple):
    """Changes of a lane that were not counted yet."""

    lane: str
    after: int
    until: int


def list_uncounted(connection: psycopg.Connection) -> list[Span]:
    """What came since the last time; a lane's changes are numbered, and end, by themselves."""
    return [Span(*row) for row in connection.execute(_SQL["list_uncounted"])]


def write_counted(connection: psycopg.Connection, span: Span) -> None:
    connection.execute(_RELAY["write_position"], {"relay": f"usage-{span.lane}", "seq": span.until})


def busy_tenants(connection: psycopg.Connection, span: Span) -> set[str]:
    """The tenants with changes there."""
    return {tenant_id for (tenant_id,) in connection.execute(_SQL["busy_tenants"], span._asdict())}


def count_usage(connection: psycopg.Connection, tenants: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Count these tenants anew, by reading all their assets; returns the assets and bytes of each."""
    counted = {}
    for tenant_id in tenants:
        with connection.transaction():
            connection.execute(_SQL["forget_sources"], {"tenant_id": tenant_id})
            connection.execute(_SQL["count_sources"], {"tenant_id": tenant_id})
            row = connection.execute(_SQL["sum_sources"], {"tenant_id": tenant_id}).fetchone()
        counted[tenant_id] = (int(row[0]), int(row[1])) if row else (0, 0)
    return counted


def record_usage(connection: psycopg.Connection, counted: dict[str, tuple[int, int]]) -> None:
    """Tell the shared cell's database, where the quotas are."""
    for tenant_id, (assets, size) in counted.items():
        connection.execute(_SQL["record_usage"], {"tenant_id": tenant_id, "assets": assets, "bytes": size})
