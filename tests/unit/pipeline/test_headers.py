"""Headers of records: by name, the last one counts, and none is mistaken for another's."""

from __future__ import annotations

import pyarrow as pa

from lily.pipeline.headers import Headers

_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_RECORDS = pa.array(
    [
        [{"key": "a", "value": b"left out"}],
        [{"key": "a", "value": b"1"}, {"key": "b", "value": b"x"}, {"key": "a", "value": b"2"}],
        None,
        [],
        [{"key": "b", "value": b"y"}],
        [{"key": "a", "value": None}],
        [{"key": "a", "value": b"3"}],
    ],
    _TYPE,
).slice(1)


def test_the_last_value_of_a_name_counts_and_what_is_absent_is_null() -> None:
    headers = Headers(_RECORDS)
    assert headers.texts("a").to_pylist() == ["2", None, None, None, None, "3"]
    assert headers.texts("b").to_pylist() == ["x", None, None, "y", None, None]
    assert headers.texts("c").to_pylist() == [None] * 6


def test_a_value_that_is_no_text_is_marked() -> None:
    headers = Headers(pa.array([[{"key": "a", "value": b"\xff"}], [{"key": "a", "value": b"b"}]], _TYPE))
    assert headers.texts("a").to_pylist() == ["\ufffd\0", "b"]


def test_a_batch_without_any_headers_is_read() -> None:
    assert Headers(pa.array([None, []], _TYPE)).texts("a").to_pylist() == [None, None]
