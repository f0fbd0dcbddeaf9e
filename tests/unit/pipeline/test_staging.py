"""A rule that looks over a whole batch blames the record that breaks it, and no other."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kit.events import at
from kit.records import RECORDS
from lily.pipeline.staging import stage

_HEADERS = {
    "ce_id": b"0190a000-0000-7000-8000-00000000abcd",
    "ce_type": b"io.lily.asset.asserted.v1",
    "ce_source": b"/tests",
    "ce_tenantid": b"acme",
}


def record(value: bytes, **headers: bytes) -> dict[str, Any]:
    said = [{"key": name, "value": text} for name, text in (_HEADERS | headers).items()]
    return {"topic": "t", "partition": 0, "offset": 0, "timestamp": at(0), "value": value, "headers": said}


def reasons(*records: dict[str, Any]) -> list[str | None]:
    reason: list[str | None] = stage(pa.Table.from_pylist(list(records), RECORDS))["reason"].to_pylist()
    return reason


SOUND = record(b'{"asset_id":"a","metadata":{"a":1.10}}')


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (record(b'{"asset_id":"a","description":"\\u0000"}'), "nul_character"),
        (record(b'{"asset_id":"a","description":"\\\\u0000"}'), None),
        (record(b'{"asset_id":"a\\n"}'), "no_asset_id"),
        (record(b'{"asset_id":"\xc2\x80"}'), None),
        (record('{"asset_id":"%s"}'.replace("%s", "é" * 512).encode()), None),
        (record('{"asset_id":"%s"}'.replace("%s", "é" * 513).encode()), "no_asset_id"),
        (record(b'{"asset_id":"a"}', ce_actor=b"a\0"), "bad_header"),
        (record(b'{"asset_id":"a"}', ce_actor=b"a\n"), None),
        (record(b'{"asset_id":"a"}', ce_source=b"\xff"), "bad_header"),
        (record(b'{"asset_id":"a"}', ce_id=b"a\0"), "no_id"),
        (record(b'{"asset_id":"a"}', ce_tenantid=b"a b"), "no_tenant"),
        (record(b""), "empty"),
    ],
)
def test_a_rule_blames_the_record_that_breaks_it(odd: dict[str, Any], reason: str | None) -> None:
    assert reasons(SOUND, odd, SOUND) == [None, reason, None]


def test_two_payloads_do_not_make_an_escaped_nul_together() -> None:
    assert reasons(record(b'{"asset_id":"a"} \\'), record(b"u0000"), SOUND) == [
        "malformed",
        "malformed",
        None,
    ]
