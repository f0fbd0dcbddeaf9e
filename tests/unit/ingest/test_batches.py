"""What is read quickly is what pydantic reads: never another field, another value or another type."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bench.kit.events import table_batch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from lily.ingest.assets import AssetBatch
from lily.ingest.batches import read_batch
from lily.ingest.payloads import decode_assets

BATCH = TypeAdapter(AssetBatch)
ORDERS = '"asset_name":"orders","asset_type":"table"'
TIMES = [
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00.5+01:00",
    "2026-01-01T00:00:00.1234567Z",
    "2026-01-01T00:00:00.9999999Z",
    "2026-01-01T00:00:00",
    "2026-01-01 00:00:00Z",
    "2026-01-01t00:00:00z",
    "2026-01-01T00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-02-30T00:00:00Z",
    "2026-01-01T00:00:60Z",
    "2026-01-01T00:00:00+0100",
    "2026-01-01T00:00:00-00:00",
    "2026-01-01T00:00:00+23:59",
    "2026-01-01T00:00:00+24:00",
    "2026-01-01T00:00:00+01:60",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59.999999-14:00",
    "0000-01-01T00:00:00Z",
    "2026-01-01T00:00:00Z\n",
    "２026-01-01T00:00:00Z",
    "2026-01-01",
    "1767225600",
    "",
]
NUMBERS = ["0", "-0", "-0.0", "1.0", "1e2", "1E400", "1e308", "-1.7e308", "1e-400", "0.1e1", "9" * 30]
NUMBERS += [
    "9" * 310,
    "9" * 5000,
    "18446744073709551616",
    "123456789012345678.5",
    "NaN",
    "-Infinity",
    "01",
    "+1",
]
TEXTS = ['""', r'"\ud800"', r'"\ud83d\ude00"', r'"\u0000"', '"a\x7f"', r'"a\n"', '"a\nb"', r'"\x"', '"größe"']
TEXTS += [json.dumps("x" * length) for length in (256, 257, 512, 513, 1024, 1025)]
TEXTS += [json.dumps("\U0001f600" * length, ensure_ascii=False) for length in (256, 257, 1024, 1025)]
NESTED = ["[" * depth + "]" * depth for depth in (1, 63, 64, 65, 190, 300, 2000)]
NESTED += ['{"a":' * depth + "1" + "}" * depth for depth in (63, 64, 65, 190, 300)]
LABELS = [
    json.dumps(["b", "a", "b"]),
    json.dumps(["x"] * 257),
    json.dumps([str(n) for n in range(257)]),
    '["",1]',
]
OBJECTS = ["{}", '{"a":1,"a":2}', '{"":[{}]}', '{"a":NaN}', "{", '{"\\u0061":1}']

PIECES = [*map(json.dumps, TIMES), *NUMBERS, *TEXTS, *NESTED, *LABELS, *OBJECTS, "null", "true"]
NAMES = sorted({*BATCH.json_schema()["$defs"]["AssetBody"]["properties"], "unknown"})
LIKELY = [
    '"asset_id":"orders"',
    '"asset_id":null',
    '"tags":["PII","finance"]',
    '"tag_origin":"source"',
    '"is_deleted":false',
    '"metadata":{"rows":1,"of":["a",{"b":null}]}',
    '"event_time":"2026-01-01T00:00:00Z"',
    '"description":""',
    '"version":3',
]
STRAY = ["{}", "null", "[]", "1", '{"asset_name":"a"}', '{"asset_name":"a","asset_name":"b"}']

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
values = st.sampled_from(PIECES) | st.builds(json.dumps, trees, ensure_ascii=st.booleans())
fields = st.sampled_from(LIKELY) | st.builds("{}:{}".format, st.sampled_from(NAMES).map(json.dumps), values)
assets = st.lists(fields, max_size=4).map(lambda said: "{" + ",".join([ORDERS, *said]) + "}")
batches = st.lists(assets | assets | assets | st.sampled_from(STRAY), max_size=3).map(
    lambda each: f'{{"assets":[{",".join(each)}]}}'
)


def as_read(assets: list[Any]) -> str:
    """Tells what `==` does not: 1 from 1.0, and -0.0 from 0.0."""
    return repr([sorted(asset.items()) for asset in assets])


def require_agreement(body: bytes) -> None:
    quick = read_batch(body)
    if quick is not None:
        assert as_read(quick) == as_read(BATCH.validate_json(body)["assets"])
        assert not decode_assets(body).rejected


@given(batches)
def test_what_is_read_quickly_is_what_pydantic_reads(body: str) -> None:
    require_agreement(body.encode())


@pytest.mark.parametrize("name", NAMES)
def test_every_odd_value_is_read_alike(name: str) -> None:
    for piece in PIECES:
        said = f"{json.dumps(name)}:{piece}"
        for asset in (f"{ORDERS},{said}", f"{ORDERS},{said},{said}", f'{said},"asset_type":"table"'):
            require_agreement(f'{{"assets":[{{{asset}}}]}}'.encode())


@pytest.mark.parametrize("piece", PIECES, ids=range(len(PIECES)))
def test_every_odd_value_of_metadata_is_read_alike(piece: str) -> None:
    for metadata in (f'{{"a":{piece}}}', f'{{"a":[1,{{"b":{piece}}}]}}'):
        require_agreement(f'{{"assets":[{{{ORDERS},"metadata":{metadata}}}]}}'.encode())


@pytest.mark.parametrize(
    "body",
    [
        b'{"assets":[{"asset_name":"\xff","asset_type":"t"}]}',
        b'{"assets":[{"asset_name":"n","asset_type":"t","metadata":{"a":"\xff"}}]}',
        b'\xef\xbb\xbf{"assets":[{"asset_name":"n","asset_type":"t"}]}',
        b'{"assets":[{"asset_name":"n","asset_type":"t"}],"more":1}',
        b'{"assets":[{"asset_name":"n","asset_type":"t"}]} x',
        b'{"assets":[]}',
        b"[]",
        b"",
    ],
)
def test_what_is_wrong_is_left_to_pydantic(body: bytes) -> None:
    assert read_batch(body) is None


@pytest.mark.parametrize(
    "said", ["", '"description":"größe \\n",', '"event_time":"2026-01-01T00:00:00.5+01:00",', '"tags":null,']
)
def test_what_is_usual_is_read_quickly(said: str) -> None:
    assert read_batch(f'{{"assets":[{{{said}{ORDERS}}}]}}'.encode()) is not None
    assert read_batch(table_batch(range(1000), 0)) is not None
