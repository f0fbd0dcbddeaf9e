"""Counts what tenants have, now and then, so that asking for it is cheap."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from lily.repositories.postgres.queries import load

_SQL = load("usage.sql")
_RELAY = load("relay.sql")
_RELAY_NAME = "usage"


def read_counted(connection: psycopg.Connection) -> int:
    """Up to which change the tenants were counted."""
    row = connection.execute(_RELAY["read_position"], {"relay": _RELAY_NAME}).fetchone()
    return int(row[0]) if row else 0


def write_counted(connection: psycopg.Connection, seq: int) -> None:
    connection.execute(_RELAY["write_position"], {"relay": _RELAY_NAME, "seq": seq})


def newest_change(connection: psycopg.Connection) -> int:
    """The number of the newest change, from which `busy_tenants` can go on."""
    row = connection.execute(_SQL["newest_change"]).fetchone()
    return int(row[0]) if row else 0


def busy_tenants(connection: psycopg.Connection, after: int, until: int) -> list[str]:
    """The tenants with changes after one number, up to another."""
    rows = connection.execute(_SQL["busy_tenants"], {"after": after, "until": until})
    return [tenant_id for (tenant_id,) in rows]


def count_usage(connection: psycopg.Connection, tenants: Sequence[str]) -> dict[str, tuple[int, int]]:
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
