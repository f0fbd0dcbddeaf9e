"""Payloads are read by whole batches or one by one, and say the same either way, whatever their bytes."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.written_json import written_payloads
from lily.log.envelope import MAX_EVENT_BYTES
from lily.pipeline.odd_payloads import BAD_METADATA, LISTS, MALFORMED, NOT_UTF8, TEXTS, read_odd
from lily.pipeline.payloads import Said, read_payloads

_NAMES = st.sampled_from(
    ["asset_id", "asset_name", "tags", "business_terms", "metadata", "is_deleted", "expected_version", "x"]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(_NAMES, _JSON | st.lists(st.text(), max_size=3), max_size=6)


def deep(levels: int) -> bytes:
    return b'{"metadata":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"


def told(*values: bytes | None) -> list[dict[str, Any]]:
    """What each payload says, which fields it mentions, and its flaw."""
    read = read_payloads(pa.array(values, pa.binary()))
    columns = {name: column.to_pylist() for name, column in read.said.items()}
    columns["metadata"] = [meant(text) for text in columns["metadata"]]
    columns["flaw"] = read.flaws.to_pylist()
    columns["mentions"] = [
        {name for name, mentions in read.mentions.items() if mentions[place]} for place in range(len(values))
    ]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def told_alone(value: bytes | None) -> dict[str, Any]:
    """The same as it is read one by one."""
    row, flaw = read_odd(value)
    said = {name: row.get(name) for name in (*TEXTS, *LISTS, "is_deleted", "expected_version")}
    mentions = {name for name in Said.__struct_fields__ if name in row}
    return said | {"metadata": meant(row.get("metadata")), "flaw": flaw, "mentions": mentions}


def meant(text: str | None) -> Any:
    """JSON as PostgreSQL keeps it: with every digit of a number that has a fraction."""
    return json.loads(text, parse_float=lambda digits: str(Decimal(digits).as_tuple())) if text else None


@given(st.lists(written_payloads() | st.binary(max_size=40) | st.none(), min_size=1, max_size=4))
def test_a_payload_says_the_same_in_a_batch_as_alone(values: list[bytes | None]) -> None:
    assert told(*values) == [told_alone(value) for value in values]


@pytest.mark.parametrize("first", ["[" * 250 + "]" * 250, '{"a":' + "9" * 4301 + "}", '{"a":"\\ud800"}'])
@pytest.mark.parametrize("name", ["metadata", "metadat\\u0061"])
def test_the_last_of_two_members_hides_nothing(first: str, name: str) -> None:
    value = f'{{"{name}":{first},"description":"d","metadata":{{"a":1}}}}'.encode()
    assert told(value) == [told_alone(value)]


def test_a_batch_of_many_parts_is_in_order() -> None:
    values = [f'{{"asset_name":"{n}"}}'.encode() if n % 7 else b"{" for n in range(2000)]
    told_names = [row["asset_name"] for row in told(*values)]
    assert told_names == [str(n) if n % 7 else None for n in range(2000)]


@pytest.mark.parametrize("value", [b"{" + b" " * MAX_EVENT_BYTES + b"}", b'{"asset_name":"\xff"}', b"{"])
def test_what_is_odd_does_not_touch_what_stands_beside_it(value: bytes) -> None:
    sound = b'{"asset_name":"orders","metadata":{"a":1.50}}'
    assert told(sound, value, sound) == [told_alone(each) for each in (sound, value, sound)]


@given(_OBJECTS)
def test_a_payload_says_the_same_alone_and_beside_a_broken_one(payload: dict[str, Any]) -> None:
    value = json.dumps(payload).encode()
    assert told(value)[0] == told(value, b"{")[0]


@given(st.binary(max_size=40) | st.sampled_from([deep(900), deep(5000), b"[" * 5000, b"1" * 5000]))
def test_no_bytes_stop_a_batch(value: bytes) -> None:
    sound = b'{"asset_name": "orders"}'
    before, _, after = told(sound, value, sound)
    assert before == after
    assert (before["asset_name"], before["flaw"]) == ("orders", None)


@pytest.mark.parametrize(
    ("value", "flaw"),
    [
        (b'{"asset_name": "\xff"}', NOT_UTF8),
        (b'{"asset_name": "a"} {}', MALFORMED),
        (b'{"a": 1}, {"b": 2}', MALFORMED),
        (b'{"metadata": {"a": NaN}}', MALFORMED),
        (b'{"tags": "pii"}', MALFORMED),
        (b'{"expected_version": true}', MALFORMED),
        (b'{"expected_version": 1e400}', MALFORMED),
        (b'{"metadata": {"a": 1e400}}', BAD_METADATA),
        (b'{"metadata": {"a": "\\ud800"}}', BAD_METADATA),
        (b'{"metadata": [1]}', BAD_METADATA),
        (b'{"metadata": {"a": "Infinity"}}', None),
        (b'{"tags": [null, 1, {"a": "b"}]}', None),
        (b'{"asset_name": "\\ud800"}', None),
        (deep(190), None),
        (deep(210), MALFORMED),
        (b'{"metadata": {"a": "\\ud800", "b": ' + b"[" * 300 + b"]" * 300 + b"}}", MALFORMED),
        (b'{"asset_id": 1.10}', MALFORMED),
        (b'{"tags": [1.10]}', MALFORMED),
        (b'{"asset_id": "' + b"[" * 300 + b'", "tags": [1]}', None),
        (deep(100_000), MALFORMED),
        (b"", None),
        (None, None),
    ],
)
def test_what_cannot_be_read_is_told_and_what_is_odd_is_kept(value: bytes | None, flaw: str | None) -> None:
    assert told(value)[0]["flaw"] == flaw


def test_two_halves_of_a_payload_do_not_become_one() -> None:
    halves = told(b'{"tags":[{}', b'{}],"asset_name":"x"}', b"{},{}")
    assert {half["flaw"] for half in halves} == {MALFORMED}


def test_an_empty_batch_has_its_columns() -> None:
    assert told() == []
