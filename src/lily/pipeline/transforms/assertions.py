"""Turns the payload of an asset event into staged columns, or into a reason why it cannot be applied."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lily.domain.assets import ALL_FIELDS, Field, TagOrigin
from lily.log.envelope import MAX_EVENT_BYTES, EventType

_TYPES = tuple(t.value for t in (EventType.ASSET_ASSERTED, EventType.ASSET_PURGED))
_CORRUPT = "_corrupt"
_PAYLOAD = f"""
    asset_id STRING, asset_name STRING, asset_type STRING, asset_owner STRING, description STRING,
    data_source STRING, external_id STRING, business_terms ARRAY<STRING>, tags ARRAY<STRING>,
    tag_origin STRING, metadata STRING, is_deleted BOOLEAN, created_at STRING, event_time STRING,
    updated_at STRING, expected_version INT, {_CORRUPT} STRING
"""
_TIMES = ("created_at", "event_time", "updated_at")
_PLAIN = ("asset_name", "asset_type", "asset_owner", "description", "data_source", "external_id")
#: A NUL, escaped as JSON does it: the backslash before `u0000` is not itself escaped.
_NUL = r"(^|[^\\])(\\\\)*\\u0000"
_ASSET_ID_MAX = 512


def parse_payload(events: DataFrame) -> DataFrame:
    """Adds `said` (the payload's fields), `keys` (which were mentioned) and the three times in it."""
    options = {"columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"}
    return (
        events.withColumn("said", F.from_json("payload", _PAYLOAD, options))
        .withColumn("keys", F.json_object_keys("payload"))
        .withColumns({name: F.col(f"said.{name}").try_cast("timestamp") for name in _TIMES})
        .withColumn("asset_id", F.coalesce("said.asset_id", "subject"))
    )


def judge(events: DataFrame) -> DataFrame:
    """Adds `reason` and `detail`, NULL for an event that can be applied."""
    verdicts = _verdicts()
    reason = reduce(lambda chain, v: chain.when(v[0], F.lit(v[1])), verdicts[1:], F.when(*_lit(verdicts[0], 1)))
    detail = reduce(lambda chain, v: chain.when(v[0], v[2]), verdicts[1:], F.when(*_lit(verdicts[0], 2)))
    return events.withColumns({"reason": reason, "detail": detail})


def stage(events: DataFrame) -> DataFrame:
    """The columns of the staging table (0001_spine.sql); what was refused keeps the record as it came."""
    refused = F.col("reason").isNotNull()
    purge = F.col("event_type") == EventType.ASSET_PURGED.value
    applied = ~refused & ~purge

    def said(name: str) -> Column:
        return F.when(applied, F.col(f"said.{name}")).alias(name)

    return events.select(
        "topic",
        "partition",
        "offset",
        F.when(refused, F.col("key")).alias("key"),
        F.when(refused, F.col("value")).alias("payload"),
        F.when(refused, F.to_json(F.transform_values("header", lambda _, v: F.base64(v)))).alias("headers"),
        "reason",
        "detail",
        "event_id",
        "tenant_id",
        "asset_id",
        F.coalesce("event_time", "updated_at", "received_at").alias("event_time"),
        "received_at",
        "created_at",
        "actor",
        "traceparent",
        F.col("said.expected_version").alias("expected_version"),
        F.when(purge, F.lit(int(ALL_FIELDS))).otherwise(_mentioned()).cast("smallint").alias("fields"),
        *(said(name) for name in _PLAIN),
        said("business_terms"),
        F.when(applied & _from_source(), F.col("said.tags")).alias("source_tags"),
        F.when(applied & ~_from_source(), F.col("said.tags")).alias("user_tags"),
        said("metadata"),
        said("is_deleted"),
    )


def _verdicts() -> list[tuple[Column, str, Column]]:
    """What makes an event unfit, in the order it is looked at: condition, reason, detail."""
    asset_id = F.col("asset_id")
    metadata = F.col("said.metadata")
    origins = [origin.value for origin in TagOrigin]
    return [
        (F.col("size").isNull(), "empty", F.lit("the record has no value; send a JSON object")),
        (
            F.col("size") > MAX_EVENT_BYTES,
            "too_large",
            F.concat(F.lit(f"at most {MAX_EVENT_BYTES} bytes are applied, this has "), F.col("size")),
        ),
        (F.col("payload").isNull(), "not_utf8", F.lit("the value is not UTF-8 text")),
        (
            F.coalesce(~F.col("event_type").isin(*_TYPES), F.lit(True)),
            "unknown_type",
            F.concat(F.lit("ce_type is "), _shown("event_type"), F.lit(f"; known: {', '.join(_TYPES)}")),
        ),
        (F.col("event_id").isNull(), "no_id", F.lit("the header ce_id is missing")),
        (
            F.col("tenant_id").isNull(),
            "no_tenant",
            F.lit("the header ce_tenantid is missing or no tenant name (1-63 letters, digits, _ . -)"),
        ),
        (
            F.col("keys").isNull() | F.col(f"said.{_CORRUPT}").isNotNull(),
            "malformed",
            F.concat(F.lit("no JSON object with the fields of an asset in their types: "), F.left("payload", F.lit(200))),
        ),
        (
            F.contains("payload", F.lit("\\u0000")) & F.col("payload").rlike(_NUL),
            "nul_character",
            F.lit("a text has a NUL character, which cannot be kept; leave it out"),
        ),
        (
            asset_id.isNull() | (F.length(asset_id) == 0) | (F.length(asset_id) > _ASSET_ID_MAX),
            "no_asset_id",
            F.lit(f"asset_id (or the header ce_subject) must have 1 to {_ASSET_ID_MAX} characters"),
        ),
        *(
            (
                F.col(f"said.{name}").isNotNull() & F.col(name).isNull(),
                "bad_time",
                F.concat(F.lit(f"{name} is no ISO 8601 time: "), _shown(f"said.{name}")),
            )
            for name in _TIMES
        ),
        (
            metadata.isNotNull() & ~F.startswith(F.ltrim(metadata), F.lit("{")),
            "bad_metadata",
            F.lit("metadata must be a JSON object"),
        ),
        (
            F.col("said.tag_origin").isNotNull() & ~F.col("said.tag_origin").isin(*origins),
            "bad_tag_origin",
            F.concat(F.lit("tag_origin is "), _shown("said.tag_origin"), F.lit(f"; known: {', '.join(origins)}")),
        ),
    ]


def _lit(verdict: tuple[Column, str, Column], position: int) -> tuple[Column, Column]:
    return verdict[0], F.lit(verdict[1]) if position == 1 else verdict[2]


def _shown(column: str) -> Column:
    return F.coalesce(F.concat(F.lit("'"), F.left(column, F.lit(100)), F.lit("'")), F.lit("missing"))


def _from_source() -> Column:
    return F.coalesce(F.col("said.tag_origin") == TagOrigin.SOURCE.value, F.lit(False))


def _mentioned() -> Column:
    """The fields the payload speaks about, as bits; a field that is null is spoken about, too."""
    bits = {name: F.lit(int(Field[name.upper()])) for name in (*_PLAIN, "business_terms", "metadata", "is_deleted")}
    bits["tags"] = F.when(_from_source(), F.lit(int(Field.SOURCE_TAGS))).otherwise(F.lit(int(Field.USER_TAGS)))
    mentioned = [F.when(F.array_contains("keys", name), bit).otherwise(F.lit(0)) for name, bit in bits.items()]
    return reduce(lambda a, b: a.bitwiseOR(b), mentioned)
