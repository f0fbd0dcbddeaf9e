"""The records of the log as the lanes take them.

Spark plans every micro-batch anew, at a cost that grows with the number of expressions, so its plan has none:
what records say is read on Arrow columns, on the driver or on the executors (ADR 32).
"""

from __future__ import annotations

from pyspark.sql import DataFrame

_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def as_records(events: DataFrame) -> DataFrame:
    """What the Kafka source and the archive give alike."""
    return events.select(*_COLUMNS)
