"""Reads a tenant's records from the lake where the log has forgotten them."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import functions as F

from lily.log.copies import Offsets
from lily.log.envelope import Headers
from lily.log.replays import RawRecord
from lily.pipeline.session import start_session
from lily.repositories.iceberg.catalog import events_table
from lily.settings import Settings


def archived_records(settings: Settings, tenant_id: str, before: Offsets) -> Iterator[RawRecord]:
    """The tenant's records before these offsets, in the order of their partition, as they were received."""
    session = start_session(settings)
    try:
        archived = session.table(events_table(settings.lake.namespace)).where(F.col("tenant_id") == tenant_id)
        for topic, partitions in before.items():
            for partition, first in partitions.items():
                place = (
                    (F.col("topic") == topic) & (F.col("partition") == partition) & (F.col("offset") < first)
                )
                rows = archived.where(place).dropDuplicates(["offset"]).orderBy("offset")
                for row in rows.toLocalIterator(prefetchPartitions=False):
                    headers: Headers = [
                        (header["key"], bytes(header["value"] or b"")) for header in row["headers"]
                    ]
                    yield topic, _bytes(row["key"]), _bytes(row["value"]) or b"", headers
    finally:
        session.stop()


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
