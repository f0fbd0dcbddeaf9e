"""Whatever the bytes, reading a body ends in fields or in an error that says where and what is allowed."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily.access.requests import MalformedRequest
from lily.domain.errors import InvalidInput
from lily.ingest.assets import MAX_METADATA_DEPTH
from lily.ingest.lineage import Relationship
from lily.ingest.payloads import Decoder, decode_assets


def body(**fields: Any) -> bytes:
    return json.dumps({"asset_name": "orders", "asset_type": "table"} | fields).encode()


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def errors_of(raw: bytes) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        decode_assets(raw)
    return {error["pointer"]: error["detail"] for error in caught.value.values.get("errors", [])}


def test_absent_and_null_stay_different() -> None:
    (asset,) = decode_assets(body(description=None)).assets
    assert asset == {"asset_name": "orders", "asset_type": "table", "description": None}


def test_tags_are_a_sorted_set() -> None:
    assert decode_assets(body(tags=["b", "a", "b"])).assets[0]["tags"] == ["a", "b"]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"{",
        b"\xff\xfe",
        b'{"asset_name": "\xff", "asset_type": "t"}',
        b'{"asset_name": "\\ud800", "asset_type": "t"}',
        b'{"asset_name": "a\x00b", "asset_type": "t"}',
        b"{'a': 1}",
        b'{"a": ' + b"[" * 10_000,
        b"[" * 10_000 + b"]" * 10_000,
        body()[:-1],
        body() + b"x",
        b'{"assets": [' + b'{"a":' * 10_000,
    ],
    ids=range(13),
)
def test_what_is_not_json_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedRequest, match="not JSON"):
        decode_assets(raw)


@pytest.mark.parametrize("raw", [b"[]", b"1", b'"x"', b"null", b"true"])
def test_what_is_no_object_is_invalid(raw: bytes) -> None:
    assert errors_of(raw) == {"": "Input should be an object"}


@pytest.mark.parametrize(
    ("fields", "pointer", "allowed"),
    [
        ({"asset_name": ""}, "/asset_name", "at least 1"),
        ({"asset_name": None}, "/asset_name", "string"),
        ({"asset_name": 7}, "/asset_name", "string"),
        ({"asset_name": "x" * 1025}, "/asset_name", "at most 1024"),
        ({"description": "x" * 65_537}, "/description", "at most 65536"),
        ({"asset_id": "a\nb"}, "/asset_id", "control characters"),
        ({"asset_id": "x" * 513}, "/asset_id", "at most 512"),
        ({"tags": "pii"}, "/tags", "array"),
        ({"tags": ["x" * 257]}, "/tags/0", "at most 256"),
        ({"tags": ["", "b"]}, "/tags/0", "at least 1"),
        ({"tags": [str(n) for n in range(257)]}, "/tags", "at most 256"),
        ({"tags": [1]}, "/tags/0", "string"),
        ({"tag_origin": "rumour"}, "/tag_origin", "'source' or 'user'"),
        ({"is_deleted": "yes"}, "/is_deleted", "boolean"),
        ({"is_deleted": 1}, "/is_deleted", "boolean"),
        ({"metadata": []}, "/metadata", "object"),
        ({"metadata": {"a/b": {"~": float("inf")}}}, "/metadata/a~1b/~0", "1e308"),
        ({"metadata": {"n": float("nan")}}, "/metadata/n", "1e308"),
        ({"metadata": {"n": 10**400}}, "/metadata/n", "1e308"),
        ({"metadata": {"n": "a\x00"}}, "/metadata/n", "U+0000"),
        ({"metadata": {"a\x00": 1}}, "/metadata", "U+0000"),
        ({"description": "a\x00"}, "/description", "U+0000"),
        ({"event_time": "yesterday"}, "/event_time", "datetime"),
        ({"event_time": 1_700_000_000}, "/event_time", "datetime"),
        ({"event_time": "0001-01-01T00:00:00+02:00"}, "/event_time", "years 1 and 9999"),
        ({"event_time": "9999-12-31T23:59:59-02:00"}, "/event_time", "years 1 and 9999"),
        ({"colour": "red"}, "/colour", "allowed: asset_id, asset_name"),
    ],
)
def test_a_bad_field_is_named_with_what_is_allowed(
    fields: dict[str, Any], pointer: str, allowed: str
) -> None:
    errors = errors_of(body(**fields))
    assert allowed in errors[pointer]


def test_metadata_may_be_as_deep_as_promised_and_no_deeper() -> None:
    assert decode_assets(body(metadata=nested(MAX_METADATA_DEPTH))).assets
    (detail,) = errors_of(body(metadata=nested(MAX_METADATA_DEPTH + 1))).values()
    assert detail == "nested deeper than 64 levels"


def test_so_may_what_is_said_of_an_edge() -> None:
    edge = {"from_asset_id": "a", "to_asset_id": "b", "relationship_type": "uses"}

    def decode(provenance: Any) -> Any:
        return Decoder(Relationship).decode(json.dumps(edge | {"provenance": provenance}).encode())

    assert decode(nested(MAX_METADATA_DEPTH - 1))
    with pytest.raises(InvalidInput, match="nested deeper than 64 levels"):
        decode(nested(MAX_METADATA_DEPTH + 1))
    for number in (float("inf"), float("nan"), 10**400):
        with pytest.raises(InvalidInput, match="not a number, or too large a one"):
            decode({"n": [number]})


def test_a_batch_keeps_the_good_and_lists_the_bad_with_their_places() -> None:
    good = {"asset_name": "orders", "asset_type": "table"}
    raw = json.dumps(
        {
            "assets": [
                good,
                {"asset_name": "x"},
                good | {"metadata": {"n": float("inf")}},
                good | {"description": "\x00"},
                3,
                good | {"asset_owner": "ada"},
            ]
        }
    ).encode()
    decoded = decode_assets(raw)
    assert list(decoded.indexes) == [0, 5]
    assert decoded.assets[1]["asset_owner"] == "ada"
    pointers = {each.index: each.error.values["errors"][0]["pointer"] for each in decoded.rejected}
    assert pointers == {1: "/asset_type", 2: "/metadata/n", 3: "/description", 4: ""}


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"assets": []}, "/assets"),
        ({"assets": None}, "/assets"),
        ({"assets": {}}, "/assets"),
        ({"assets": [{}] * 1001}, "/assets"),
        ({"assets": [], "more": 1}, "/more"),
        ({"more": 1, "assets": [{"asset_name": "n", "asset_type": "t"}]}, "/more"),
    ],
    ids=range(6),
)
def test_what_is_wrong_with_the_batch_itself_refuses_it(document: dict[str, Any], pointer: str) -> None:
    assert pointer in errors_of(json.dumps(document).encode())


def test_a_batch_is_known_by_its_key_wherever_it_stands() -> None:
    assert decode_assets(b' {\n "assets" : [{"asset_name":"n","asset_type":"t"}]}').is_batch
    assert not decode_assets(body(metadata={"assets": [1]})).is_batch


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(raw: bytes) -> None:
    with suppress(InvalidInput):
        decode_assets(raw)


_TEXT = st.text(max_size=5)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=10,
)


@given(
    st.dictionaries(st.sampled_from(["asset_name", "asset_type", "tags", "metadata", "x", "assets"]), _JSON)
)
def test_no_json_raises_anything_else(document: dict[str, Any]) -> None:
    with suppress(InvalidInput):
        decode_assets(json.dumps(document).encode())
