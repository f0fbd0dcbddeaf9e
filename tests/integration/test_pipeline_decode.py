"""Decoding: every sound record is applied, every poisonous one becomes a dead letter, nothing stops."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kit.databases import Databases
from kit.records import LogRecord, batch, poison, sound
from kit.staging import Catalog
from lily.domain.assets import ALL_FIELDS, Field, Lane
from lily.log.envelope import MAX_EVENT_BYTES
from lily.pipeline.lanes import LaneQuery, describe
from lily.pipeline.staging import SCHEMA, stage
from lily.pipeline.summaries import summarise
from lily.pipeline.transforms.records import as_records
from lily.repositories.postgres.applier import Applier, Batch

_UUID = b"0190a000-0000-7000-8000-00000000abcd"
_ASSERTED = b'{"asset_id": "x", "asset_name": "n", "asset_type": "table", '


def nested(depth: int) -> bytes:
    return _ASSERTED + b'"metadata": ' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"


def with_header(record: LogRecord, name: str, value: bytes) -> LogRecord:
    return replace(record, headers=[*(record.headers or []), (name, value)])


STRANGE_HEADERS = poison("strange headers", "malformed", b"{")
for name, value in (("x\0y", b"1"), ("x", b"\xff\x00"), ("x", b"2")):
    STRANGE_HEADERS = with_header(STRANGE_HEADERS, name, value)
SOUND = [
    sound("a plain table"),
    sound(
        "every field",
        {
            "asset_owner": "ada",
            "description": "d",
            "data_source": "shop",
            "external_id": "e",
            "business_terms": ["b"],
            "tags": ["t"],
            "tag_origin": "source",
            "metadata": {"a": [1, {"b": None}]},
            "is_deleted": False,
            "created_at": "2025-01-01T00:00:00Z",
            "event_time": "2026-01-01T01:00:00+01:00",
        },
    ),
    sound("tags of a user", {"tags": ["mine"]}),
    # Any JSON value is kept as its text where text is asked for; the REST API is stricter.
    sound("a name that is a number is kept as its text", {"asset_name": 7}),
    sound("a name that is an object is kept as its text", {"asset_name": {"a": 1}}),
    sound("a tag that is an object is kept as its text", {"tags": [{"a": 1}]}),
    sound("everything null", {"asset_owner": None, "tags": None, "metadata": None, "is_deleted": None}),
    sound("a backslash before u0000 that is text", b'{"asset_name": "a\\\\u0000b", "asset_type": "table"}'),
    sound("an unknown field is ignored", {"colour": "red"}),
    sound("unicode beyond the basic plane", {"asset_owner": "𝄞 й"}),
    sound("an id that is no UUID", ce_id=b"order-17"),
    sound("the same foreign id from another source", ce_id=b"order-17", ce_source=b"elsewhere"),
    sound("an id that is a UUID and a line feed", ce_id=_UUID + b"\n"),
    sound("no time at all", ce_time=None),
    sound("a time that is none in the envelope", ce_time=b"yesterday"),
    sound("updated_at stands in for event_time", {"updated_at": "2026-01-01T00:00:07Z"}),
    sound("the subject names the asset", b'{"asset_name": "n", "asset_type": "table"}'),
    sound("a traceparent that is none", traceparent=b"what"),
    sound("metadata of depth 60", nested(60)),
    with_header(sound("of a header that comes twice the last counts"), "ce_tenantid", b"acme"),
    with_header(sound("a header with a binary value"), "x", b"\xff\x00"),
    with_header(sound("a header whose name has a NUL"), "x\0y", b"1"),
    sound("the largest event", _ASSERTED + b'"description": "' + b"x" * (MAX_EVENT_BYTES - 90) + b'"}'),
]
POISON = [
    poison("text that is no JSON", "malformed", b"oops"),
    poison("JSON cut short", "malformed", b'{"asset_id": "x", "asset_na'),
    poison("a JSON array", "malformed", b'[{"asset_id": "x"}]'),
    poison("a JSON string", "malformed", b'"x"'),
    poison("an empty value", "empty", b""),
    poison("text after the object", "malformed", b'{"asset_id": "x"} trailing'),
    poison("tags that are no list", "malformed", {"tags": "pii"}),
    poison("is_deleted that is no boolean", "malformed", {"is_deleted": "yes"}),
    poison("a version that is no number", "malformed", {"expected_version": "one"}),
    poison("a version beyond all numbers", "malformed", {"expected_version": 2**40}),
    poison("a raw NUL byte", "malformed", b'{"asset_name": "a\0b", "asset_type": "table"}'),
    poison("depth 10,000", "malformed", nested(10_000)),
    poison("an array of depth 10,000", "malformed", b"[" * 10_000 + b"]" * 10_000),
    poison("two megabytes", "too_large", _ASSERTED + b'"description": "' + b"x" * 2_000_000 + b'"}'),
    poison("one byte too many", "too_large", b"{" + b" " * (MAX_EVENT_BYTES - 1) + b"}"),
    poison("an escaped NUL in a name", "nul_character", {"asset_name": "a\0b"}),
    poison("an escaped NUL in an id", "nul_character", {"asset_id": "a\0b"}),
    poison("an escaped NUL deep in metadata", "nul_character", {"metadata": {"a": ["\0"]}}),
    poison("an escaped NUL after escaped backslashes", "nul_character", b'{"asset_name": "\\\\\\u0000"}'),
    poison("an unknown type", "unknown_type", ce_type=b"io.lily.asset.dreamt.v1"),
    poison("no type", "unknown_type", ce_type=None),
    poison("no id", "no_id", ce_id=None),
    poison("an empty id", "no_id", ce_id=b""),
    poison("no tenant", "no_tenant", ce_tenantid=None),
    poison("a tenant that is no name", "no_tenant", ce_tenantid=b"a b"),
    poison("a tenant ending in a line feed", "no_tenant", ce_tenantid=b"acme\n"),
    replace(poison("no value", "empty"), value=None),
    replace(poison("no headers", "unknown_type"), headers=None),
    replace(poison("empty headers", "unknown_type"), headers=[]),
    poison("a value that is no UTF-8", "not_utf8", b'{"asset_name": "\xff\xfe"}'),
    poison("a type that is no UTF-8", "unknown_type", ce_type=b"\xff"),
    poison("event_time that is no time", "bad_time", {"event_time": "soon"}),
    poison("updated_at that is no time", "bad_time", {"updated_at": "32.13.2026"}),
    poison("created_at that is no time", "bad_time", {"created_at": ""}),
    poison("a time of day without a day", "bad_time", {"event_time": "12:30"}),
    poison("a time after all calendars", "bad_time", {"event_time": "+294200-01-01T00:00:00Z"}),
    poison("a time before all calendars", "bad_time", {"event_time": "-9999-01-01T00:00:00Z"}),
    poison("metadata that is a list", "bad_metadata", {"metadata": [1]}),
    poison("metadata that is text", "bad_metadata", {"metadata": "text"}),
    poison("metadata that is text like an object", "bad_metadata", {"metadata": "{oops"}),
    poison(
        "metadata with a number beyond all numbers",
        "bad_metadata",
        _ASSERTED + b'"metadata": {"a": 1e999999}}',
    ),
    poison("metadata with half a character", "bad_metadata", _ASSERTED + b'"metadata": {"a": "\\ud800"}}'),
    poison("metadata with NaN", "malformed", _ASSERTED + b'"metadata": {"a": NaN}}'),
    poison("an unknown tag_origin", "bad_tag_origin", {"tags": ["a"], "tag_origin": "gossip"}),
    poison("an empty asset id", "no_asset_id", {"asset_id": ""}),
    poison("an endless asset id", "no_asset_id", {"asset_id": "x" * 513}),
    poison("no asset id at all", "no_asset_id", b'{"asset_name": "n"}', ce_subject=None),
    poison("an actor with a NUL", "bad_header", ce_actor=b"a\0b"),
    poison("an id that is no UTF-8", "no_id", ce_id=b"\xff"),
    STRANGE_HEADERS,
]
RECORDS = [record for pair in zip(SOUND, POISON, strict=False) for record in pair]
RECORDS += SOUND[len(POISON) :] + POISON[len(SOUND) :]
PURGES = [
    sound(
        "a purge",
        b'{"asset_id": "gone", "event_time": "2026-01-01T00:00:00Z"}',
        ce_type=b"io.lily.asset.purged.v1",
    )
]


@dataclass(frozen=True)
class Decoded:
    """The staged batch, and its rows by the claim of their record."""

    table: pa.Table
    rows: dict[str, dict[str, Any]]

    @cached_property
    def batch(self) -> Batch:
        return self.describe(self.table)

    def describe(self, table: pa.Table) -> Batch:
        query = LaneQuery("assets-structural", Lane.STRUCTURAL, Applier(""), lambda _: None)
        return describe(query, 1, summarise(table))


@pytest.fixture(scope="module")
def decoded(spark: SparkSession) -> Decoded:
    """All records decoded in one go, as they would be in one batch."""
    records = RECORDS + PURGES
    table = stage(batch(spark, records).transform(as_records).toArrow()).sort_by("offset")
    rows = with_times_as_numbers(table).to_pylist()
    return Decoded(table, {record.claim: row for record, row in zip(records, rows, strict=True)})


def with_times_as_numbers(table: pa.Table) -> pa.Table:
    """Python knows the years 1 to 9999 only, and a record may claim any."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(index, field.name, table[index].cast(pa.int64()))
    return table


def microseconds(*date: int) -> int:
    return int(datetime(*date, tzinfo=UTC).timestamp()) * 1_000_000  # type: ignore[arg-type,misc]


@pytest.fixture(scope="module")
def fresh(databases: Databases) -> Iterator[Catalog]:
    catalog = Catalog(databases.create())
    yield catalog
    catalog.close()


def test_the_columns_are_those_the_merge_tests_use(decoded: Decoded) -> None:
    assert decoded.table.schema.equals(SCHEMA)


def test_a_large_batch_is_read_in_parts_and_says_the_same(
    spark: SparkSession, decoded: Decoded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lily.pipeline.staging._MOST_BYTES", 1000)
    table = stage(batch(spark, RECORDS + PURGES).transform(as_records).toArrow()).sort_by("offset")
    assert table.equals(decoded.table)


def test_no_two_records_have_the_same_claim() -> None:
    assert len({record.claim for record in RECORDS}) == len(RECORDS)


def test_every_record_gets_its_reason(decoded: Decoded) -> None:
    found = {record.claim: (decoded.rows[record.claim]["reason"], record.reason) for record in RECORDS}
    assert {claim: reasons for claim, reasons in found.items() if reasons[0] != reasons[1]} == {}


def test_every_refusal_is_explained(decoded: Decoded) -> None:
    details = {row["reason"]: row["detail"] for row in decoded.rows.values()}
    assert details.pop(None) is None
    assert all(details.values())


def test_what_is_refused_keeps_the_record_as_it_came(decoded: Decoded) -> None:
    assert [r.claim for r in POISON if decoded.rows[r.claim]["payload"] != r.value] == []


def test_what_is_applied_does_not_carry_the_record_along(decoded: Decoded) -> None:
    rows = [decoded.rows[record.claim] for record in SOUND]
    assert {(row["key"], row["payload"], row["headers"]) for row in rows} == {(None, None, None)}


def test_no_record_stops_the_lane(decoded: Decoded, fresh: Catalog) -> None:
    errors = {}
    for offset, claim in enumerate(decoded.rows):
        alone = decoded.table.slice(offset, 1)
        try:
            fresh.applier.apply_table(decoded.describe(alone), alone, keep=False)
        except Exception as error:
            errors[claim] = str(error)
    assert errors == {}


def test_of_a_poisoned_batch_every_sound_record_is_applied_and_the_rest_is_buried(
    decoded: Decoded, fresh: Catalog
) -> None:
    fresh.applier.apply_table(decoded.batch, decoded.table)
    assert len(fresh.changes()) == len(SOUND) + len(PURGES)
    letters = fresh.fetch('SELECT "offset", reason, payload FROM dead_letters')
    buried = {letter["offset"]: (letter["reason"], bytes(letter["payload"])) for letter in letters}
    assert buried == {
        offset: (record.reason, record.value or b"") for offset, record in enumerate(RECORDS) if record.reason
    }


def test_the_headers_of_a_dead_letter_are_kept_in_order_whatever_is_in_them(decoded: Decoded) -> None:
    kept = json.loads(decoded.rows[STRANGE_HEADERS.claim]["headers"])
    assert [b64decode(header["value"]) for header in kept][-3:] == [b"1", b"\xff\x00", b"2"]
    assert [header["key"] for header in kept][-2:] == ["x", "x"]


def test_what_a_payload_says_arrives_in_its_columns(decoded: Decoded) -> None:
    row = decoded.rows["every field"]
    assert row["event_time"] == microseconds(2026, 1, 1)
    assert row["created_at"] == microseconds(2025, 1, 1)
    assert json.loads(row["metadata"]) == {"a": [1, {"b": None}]}
    assert (row["source_tags"], row["user_tags"], row["business_terms"]) == (["t"], None, ["b"])
    assert row["fields"] == ALL_FIELDS & ~Field.USER_TAGS
    assert (row["asset_owner"], row["is_deleted"], row["actor"]) == ("ada", False, "ada")


def test_a_field_that_is_null_is_mentioned_and_one_left_out_is_not(decoded: Decoded) -> None:
    named = Field.ASSET_NAME | Field.ASSET_TYPE
    assert decoded.rows["a plain table"]["fields"] == named
    cleared = Field.ASSET_OWNER | Field.USER_TAGS | Field.METADATA | Field.IS_DELETED
    assert decoded.rows["everything null"]["fields"] == named | cleared


def test_the_event_s_time_is_event_time_else_updated_at_else_arrival(decoded: Decoded) -> None:
    arrival = microseconds(2026, 1, 2)
    assert decoded.rows["every field"]["event_time"] == microseconds(2026, 1, 1)
    assert decoded.rows["updated_at stands in for event_time"]["event_time"] == microseconds(
        2026, 1, 1, 0, 0, 7
    )
    assert decoded.rows["a plain table"]["event_time"] == arrival
    assert decoded.rows["no time at all"]["event_time"] == arrival


def test_a_foreign_id_becomes_a_uuid_of_its_source(decoded: Decoded) -> None:
    here = decoded.rows["an id that is no UUID"]["event_id"]
    elsewhere = decoded.rows["the same foreign id from another source"]["event_id"]
    assert here != elsewhere
    assert UUID(here)


def test_a_purge_mentions_every_field_and_says_nothing(decoded: Decoded) -> None:
    row = decoded.rows["a purge"]
    assert row["fields"] == ALL_FIELDS
    assert [row[str(field.name).lower()] for field in ALL_FIELDS] == [None] * len(list(ALL_FIELDS))
