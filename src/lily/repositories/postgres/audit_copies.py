"""Reads what the audit's chains have grown by, as Arrow, for a copy elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa

from lily.repositories.postgres.queries import load

_SQL = load("audit.sql")


def read_beyond(url: str, known: Mapping[str, int], most: int) -> pa.Table:
    """About the next `most` entries that are beyond the numbers known of each chain, in order."""
    positions = pa.table(
        {"tenant_id": pa.array(list(known), pa.string()), "seq": pa.array(list(known.values()), pa.int64())}
    )
    with adbc.connect(url) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("audit_known", positions, mode="create", temporary=True)
        cursor.execute(_SQL["read_beyond"], (most,))
        return cursor.fetch_arrow_table()
