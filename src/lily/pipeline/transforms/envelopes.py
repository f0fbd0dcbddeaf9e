"""Reads the CloudEvents envelope off a Kafka record: the step right after the source."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lily.log.envelope import MAX_EVENT_BYTES

_UUID = "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"
_TENANT = "^[A-Za-z0-9_.-]{1,63}$"
_ACTOR_MAX = 256
_SUBJECT_MAX = 512
_TRACEPARENT = "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"


def read_envelope(events: DataFrame) -> DataFrame:
    """Kafka's columns in; the envelope's fields and the payload as text out. Nothing is refused yet.

    A foreign id that is no UUID is turned into one, always the same. A payload that is too large or no
    UTF-8 becomes NULL here, so that no later step spends time on it.
    """
    return events.withColumn("header", F.map_from_entries("headers")).select(
        "topic",
        "partition",
        "offset",
        "key",
        "value",
        "header",
        F.octet_length("value").alias("size"),
        header("ce_type").alias("event_type"),
        _event_id(header("ce_source"), header("ce_id")).alias("event_id"),
        _matching(header("ce_tenantid"), _TENANT).alias("tenant_id"),
        F.left(header("ce_subject"), F.lit(_SUBJECT_MAX + 1)).alias("subject"),
        F.coalesce(header("ce_time").try_cast("timestamp"), "timestamp").alias("received_at"),
        F.coalesce(F.left(header("ce_actor"), F.lit(_ACTOR_MAX)), F.lit("")).alias("actor"),
        _matching(header("traceparent"), _TRACEPARENT).alias("traceparent"),
        F.when(
            (F.octet_length("value") <= MAX_EVENT_BYTES) & F.is_valid_utf8(F.col("value").cast("string")),
            F.col("value").cast("string"),
        ).alias("payload"),
    )


def header(name: str) -> Column:
    """A header as text; NULL when it is absent, no UTF-8, or has a NUL that PostgreSQL cannot keep."""
    text = F.try_validate_utf8(F.try_element_at(F.col("header"), F.lit(name)).cast("string"))
    return F.when(~F.contains(text, F.lit("\0")), text)


def _matching(text: Column, pattern: str) -> Column:
    return F.when(text.rlike(pattern), text)


def _event_id(source: Column, given: Column) -> Column:
    foreign = F.md5(F.concat(F.coalesce(source, F.lit("")), F.lit("\x1f"), F.nullif(given, F.lit(""))))
    return F.when(given.rlike(_UUID), F.lower(given)).otherwise(foreign)
