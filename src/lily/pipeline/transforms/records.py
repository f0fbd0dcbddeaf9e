"""The records of the log as the lanes and the lake take them.

Spark plans every micro-batch anew, at a cost that grows with the number of expressions, so its plan has none:
what records say is read on Arrow columns, on the driver or on the executors (ADR 32).
"""

from __future__ import annotations

from pyspark.sql import DataFrame

_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def as_records(events: DataFrame) -> DataFrame:
    """What the Kafka source and the archive give alike."""
    return events.select(*_COLUMNS)


def by_half_the_tasks(events: DataFrame) -> DataFrame:
    """The same by half of the tasks that can run: there is always a free one for another lane."""
    return events.coalesce(max(1, events.sparkSession.sparkContext.defaultParallelism // 2))


def in_few_tasks(events: DataFrame) -> DataFrame:
    """The same by at most a quarter of the tasks that can run, but one: a lane never waits for the lake.

    A task writes a file, so there are fewer of these, too.
    """
    return events.coalesce(max(1, events.sparkSession.sparkContext.defaultParallelism // 4))
