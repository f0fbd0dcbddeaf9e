"""Payloads are read by whole batches or one by one, and say the same either way."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily.pipeline.payloads import BAD_METADATA, MALFORMED, NOT_UTF8, read_payloads

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
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for row, keys, flaw in zip(rows, read.keys, read.flaws.to_pylist(), strict=True):
        row["metadata"] = json.loads(row["metadata"]) if row["metadata"] else None
        row |= {"keys": set(keys), "flaw": flaw}
    return rows


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
