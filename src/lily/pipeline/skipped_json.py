"""Judges what the parser of payloads skips: `metadata`, kept as it was written, and members nobody asks for.

Skipped JSON is JSON, but may be deeper than allowed or have a number of more digits than Python reads; and
PostgreSQL keeps the digits of a number that other readers of JSON take for a double.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic_core import to_json

from lily.pipeline.arrays import is_true
from lily.pipeline.odd_payloads import MOST_LEVELS, parse

#: Fewer brackets do not make too many levels, and a smaller text has no room for more.
_BRACKETS = MOST_LEVELS - 10
_ROOM = 2 * _BRACKETS
_DIGITS = re.compile(rb"[0-9]{4301}")
#: Neither an object nor null, or a number with an exponent, a needless last zero or too many digits.
_ODD = r"^[^{n]|[:,\[\s]-?([0-9.]{17}|[0-9]+(\.[0-9]+)?[eE]|[0-9]+\.[0-9]+0[^0-9])"


def find_odd(metadata: pa.Array) -> set[int]:
    """The places of JSON texts that may not be kept as they are; a few of those may."""
    large = _large(metadata.cast(pa.binary()), pc.binary_length(metadata))
    deep = {place for place, text in large if _brackets(text) > _BRACKETS}
    return deep.union(np.flatnonzero(pc.match_substring_regex(metadata, _ODD)).tolist())


def find_hiding(payloads: pa.Array, read: Iterable[pa.Array]) -> set[int]:
    """The places of payloads that may have too much in what was skipped; `read` are their longest texts."""
    rest = pc.binary_length(payloads)
    for texts in read:
        rest = pc.subtract(rest, pc.fill_null(pc.binary_length(texts), 0))
    large = _large(payloads, rest)
    return {place for place, value in large if _brackets(value) > _BRACKETS or _DIGITS.search(value)}


def rewrite(metadata: bytes) -> bytes | None:
    """The same object with numbers as doubles have them; None for what is none, or not to be kept."""
    try:
        (said,) = parse(b"[%b]" % metadata)  # as deep as it is in its payload
        written = to_json(said)
    except ValueError:
        return None
    # A number beyond all numbers is written as a word.
    return written if isinstance(said, dict) and b"Infinity" not in written else None


def _large(values: pa.Array, sizes: pa.Array) -> Iterable[tuple[int, bytes]]:
    places = np.flatnonzero(is_true(pc.greater_equal(sizes, _ROOM)))
    return zip(places.tolist(), values.take(places).to_pylist(), strict=True)


def _brackets(text: bytes) -> int:
    return text.count(b"{") + text.count(b"[")
