"""Turns the payload of an asset event into staged columns, or into a reason why it cannot be applied.

Spark plans every micro-batch anew and the time this takes grows with the number of expressions, so each rule
here is said once and in as few of them as possible: a verdict is a number, its words are a lookup.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lily.domain.assets import ALL_FIELDS, Field, TagOrigin
from lily.log.envelope import MAX_EVENT_BYTES, EventType
from lily.pipeline.transforms.envelopes import event_id, timestamp

_TYPES = tuple(t.value for t in (EventType.ASSET_ASSERTED, EventType.ASSET_PURGED))
_CORRUPT = "_corrupt"
_PAYLOAD = f"""
    asset_id STRING, asset_name STRING, asset_type STRING, asset_owner STRING, description STRING,
    data_source STRING, external_id STRING, business_terms ARRAY<STRING>, tags ARRAY<STRING>,
    tag_origin STRING, metadata VARIANT, is_deleted BOOLEAN, created_at STRING, event_time STRING,
    updated_at STRING, expected_version INT, {_CORRUPT} STRING
"""
_TIMES = ("created_at", "event_time", "updated_at")
_PLAIN = (
    "asset_name",
    "asset_type",
    "asset_owner",
    "description",
    "data_source",
    "external_id",
    "business_terms",
)
_TENANT = "^[A-Za-z0-9_.-]{1,63}\\z"
_ASSET_ID = "^[^\\p{Cntrl}]{1,512}\\z"
_TRACEPARENT = "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\\z"
#: A NUL, escaped as JSON does it: the backslash before `u0000` is not itself escaped.
_NUL = r"(^|[^\\])(\\\\)*\\u0000"
_SHOWN = 200

#: What makes an event unfit, in the order it is looked at.
_REASONS = {
    "empty": "the record has no value; send a JSON object",
    "too_large": f"at most {MAX_EVENT_BYTES} bytes are applied",
    "not_utf8": "the value is not UTF-8 text",
    "unknown_type": f"the header ce_type must be one of {', '.join(_TYPES)}",
    "bad_header": "a ce_ header is not UTF-8 text or has a NUL character",
    "no_id": "the header ce_id is missing",
    "no_tenant": "the header ce_tenantid must be a tenant's name: 1 to 63 letters, digits, _ . -",
    "malformed": "the value must be a JSON object with the fields of an asset in their types",
    "nul_character": "a text has a NUL character, which cannot be kept; leave it out",
    "no_asset_id": "asset_id (or the header ce_subject) must have 1 to 512 characters, no control characters",
    "bad_time": f"{', '.join(_TIMES)} must be ISO 8601 times",
    "bad_metadata": "metadata must be a JSON object",
    "bad_tag_origin": f"tag_origin must be one of {', '.join(TagOrigin)}",
}
_BITS = {name: int(Field[name.upper()]) for name in (*_PLAIN, "metadata", "is_deleted")}
_BITS["tags"] = int(Field.USER_TAGS)


def parse_payload(events: DataFrame) -> DataFrame:
    """Adds `said` (the payload's fields), `keys` (which were mentioned), `times` and `asset_id`."""
    options = {"columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"}
    return events.withColumns(
        {"said": F.from_json("payload", _PAYLOAD, options), "keys": F.json_object_keys("payload")}
    ).withColumns(
        {
            "times": F.struct(*(timestamp(F.col(f"said.{name}")).alias(name) for name in _TIMES)),
            "asset_id": F.coalesce("said.asset_id", "subject"),
            "metadata": F.to_json("said.metadata"),
        }
    )


def judge(events: DataFrame) -> DataFrame:
    """Adds `verdict`: the place in `_REASONS` of the first rule the event breaks, NULL when it is fit."""
    unfit = {
        "empty": F.col("size").isNull(),
        "too_large": F.col("size") > MAX_EVENT_BYTES,
        "not_utf8": F.col("payload").isNull(),
        "unknown_type": ~F.coalesce(F.col("event_type").isin(*_TYPES), F.lit(False)),
        "bad_header": _unprintable("given_id", "source", "tenant_id", "subject", "actor", "traceparent"),
        "no_id": F.coalesce(F.col("given_id"), F.lit("")) == "",
        "no_tenant": ~F.coalesce(F.col("tenant_id").rlike(_TENANT), F.lit(False)),
        "malformed": F.col("keys").isNull()
        | F.col(f"said.{_CORRUPT}").isNotNull()
        | ~F.endswith(F.rtrim("payload"), F.lit("}")),
        "nul_character": F.contains("payload", F.lit("\\u0000")) & F.col("payload").rlike(_NUL),
        "no_asset_id": ~F.coalesce(F.col("asset_id").rlike(_ASSET_ID), F.lit(False)),
        "bad_time": reduce(
            Column.__or__, (F.col(f"said.{n}").isNotNull() & F.col(f"times.{n}").isNull() for n in _TIMES)
        ),
        "bad_metadata": ~F.col("metadata").rlike("^([{]|null$)"),
        "bad_tag_origin": ~F.col("said.tag_origin").isin(*TagOrigin),
    }
    numbered = enumerate((unfit[reason] for reason in _REASONS), start=1)
    chain = reduce(lambda so_far, rule: so_far.when(rule[1], rule[0]), numbered, F)
    return events.withColumn("verdict", chain)  # type: ignore[arg-type]


def stage(events: DataFrame) -> DataFrame:
    """The columns of the staging table (0001_spine.sql); what was refused keeps the record as it came."""
    refused = F.col("verdict").isNotNull()
    is_purge = F.col("event_type") == EventType.ASSET_PURGED.value
    fit = F.when(~refused, F.struct("tenant_id", "asset_id", "times", "actor", "traceparent"))
    judged = events.withColumns(
        {
            "fit": fit,
            "refused": F.when(refused, F.struct("key", "value", "headers")),
            "said": F.when(~refused & ~is_purge, F.col("said")),
            "metadata": F.when(~refused & ~is_purge, F.col("metadata")),
            "expected_version": F.when(~refused, F.col("said.expected_version")),
        }
    )
    return judged.select(
        "topic",
        "partition",
        "offset",
        F.col("refused.key").alias("key"),
        F.col("refused.value").alias("payload"),
        F.to_json("refused.headers").alias("headers"),
        _words(_REASONS).alias("reason"),
        F.concat(_words(_REASONS.values()), F.lit("; got "), _shown()).alias("detail"),
        _unless_broken(event_id(F.col("given_id"), F.col("source")), "no_id").alias("event_id"),
        _unless_broken(F.col("tenant_id"), "no_tenant").alias("tenant_id"),
        F.col("fit.asset_id").alias("asset_id"),
        F.coalesce("fit.times.event_time", "fit.times.updated_at", "received_at").alias("event_time"),
        "received_at",
        F.col("fit.times.created_at").alias("created_at"),
        F.left("fit.actor", F.lit(256)).alias("actor"),
        F.when(F.col("fit.traceparent").rlike(_TRACEPARENT), F.col("fit.traceparent")).alias("traceparent"),
        "expected_version",
        F.when(is_purge, F.lit(int(ALL_FIELDS))).otherwise(_mentioned()).cast("smallint").alias("fields"),
        *(F.col(f"said.{name}").alias(name) for name in _PLAIN),
        F.when(_from_source(), F.col("said.tags")).alias("source_tags"),
        F.when(~_from_source(), F.col("said.tags")).alias("user_tags"),
        F.when(F.col("metadata") != "null", F.col("metadata")).alias("metadata"),
        F.col("said.is_deleted").alias("is_deleted"),
    )


def _unprintable(*columns: str) -> Column:
    text = F.concat_ws("", *columns)
    return F.contains(text, F.lit("\0")) | ~F.is_valid_utf8(text)


def _words(words: Iterable[str]) -> Column:
    """The verdict in words, NULL for a fit event."""
    numbered = F.create_map(*(F.lit(part) for pair in enumerate(words, start=1) for part in pair))
    return F.try_element_at(numbered, F.coalesce("verdict", F.lit(0)))


def _unless_broken(column: Column, rule: str) -> Column:
    """A column that a rule vouches for; NULL for an event that broke the rule or one before it."""
    place = list(_REASONS).index(rule) + 1
    return F.when(F.coalesce("verdict", F.lit(len(_REASONS) + 1)) > place, column)


def _shown() -> Column:
    """The beginning of the payload, if it can be shown."""
    return F.coalesce(F.replace(F.left("payload", F.lit(_SHOWN)), F.lit("\0"), F.lit("")), F.lit("no text"))


def _from_source() -> Column:
    return F.coalesce(F.col("said.tag_origin") == TagOrigin.SOURCE.value, F.lit(False))


def _mentioned() -> Column:
    """The fields the payload speaks about, as bits; a field that is null is spoken about, too."""
    bits = F.create_map(*(F.lit(part) for pair in _BITS.items() for part in pair))

    def add(so_far: Column, key: Column) -> Column:
        return so_far.bitwiseOR(F.coalesce(F.try_element_at(bits, key), F.lit(0)))

    mentioned = F.aggregate("keys", F.lit(0), add)
    moved = mentioned.bitwiseXOR(F.lit(int(Field.USER_TAGS | Field.SOURCE_TAGS)))
    return F.when(_from_source() & F.array_contains("keys", "tags"), moved).otherwise(mentioned)
