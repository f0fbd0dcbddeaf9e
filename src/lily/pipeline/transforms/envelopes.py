"""Reads the CloudEvents envelope off a Kafka record: the step right after the source."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lily.log.envelope import MAX_EVENT_BYTES

_UUID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\\z"

#: A year other than 0000, and then a month: "12:30" alone would be read as today's.
_DATED = "^(?!0000)[0-9]{4}-[0-9]{2}-"


def read_envelope(events: DataFrame) -> DataFrame:
    """Kafka's columns in; the envelope's fields and the payload as text out. Nothing is refused yet.

    A payload that is too large or no UTF-8 becomes NULL here, so that no later step spends time on it.
    """
    text = F.col("value").cast("string")
    return events.withColumn("header", F.map_from_entries("headers")).select(
        "topic",
        "partition",
        "offset",
        "key",
        "value",
        "headers",
        F.octet_length("value").alias("size"),
        header("ce_type").alias("event_type"),
        header("ce_id").alias("given_id"),
        header("ce_source").alias("source"),
        header("ce_tenantid").alias("tenant_id"),
        header("ce_subject").alias("subject"),
        F.coalesce(timestamp(header("ce_time")), "timestamp").alias("received_at"),
        F.coalesce(header("ce_actor"), F.lit("")).alias("actor"),
        header("traceparent").alias("traceparent"),
        F.when((F.octet_length("value") <= MAX_EVENT_BYTES) & F.is_valid_utf8(text), text).alias("payload"),
    )


def header(name: str) -> Column:
    """A header as text; NULL when it is absent."""
    return F.try_element_at(F.col("header"), F.lit(name)).cast("string")


def timestamp(text: Column) -> Column:
    """An ISO 8601 time with its date, in years Python and PostgreSQL know; NULL for anything else."""
    return F.when(text.rlike(_DATED), text.try_cast("timestamp"))


def event_id(given: Column, source: Column) -> Column:
    """The event's id; a foreign id that is no UUID is turned into one, always the same."""
    foreign = F.md5(F.concat(F.coalesce(source, F.lit("")), F.lit("\x1f"), given))
    return F.when(given.rlike(_UUID), F.lower(given)).otherwise(foreign)
