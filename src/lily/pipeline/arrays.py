"""Column functions over Arrow arrays that pyarrow does not have in one piece."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

INSTANT = pa.timestamp("us", "UTC")
_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


def is_true(condition: pa.Array) -> pa.Array:
    """NULL counts as false."""
    return pc.fill_null(condition, False)


def where(condition: pa.Array, values: pa.Array) -> pa.Array:
    """The values for which the condition holds, else NULL; where it holds for all, nothing is copied."""
    if pc.all(condition, skip_nulls=False, min_count=0).as_py():
        return values
    if not is_any(condition):
        return pa.nulls(len(values), values.type)
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def is_any(condition: pa.Array) -> bool:
    """Whether it holds for any."""
    return bool(pc.any(condition, min_count=0).as_py())


def matches(texts: pa.Array, pattern: str) -> pa.Array:
    return is_true(pc.match_substring_regex(texts, pattern))


def matches_any(texts: pa.Array, pattern: str) -> pa.Array:
    """The same, where few texts differ: each is looked at once."""
    encoded = texts.dictionary_encode()
    return is_true(pc.take(matches(encoded.dictionary, pattern), encoded.indices))


def controls(texts: pa.Array, pattern: str = "[[:cntrl:]]") -> pa.Array:
    """Which texts match a pattern that takes a control character; nearly free where no text has one."""
    octets = all_octets(texts)
    if ((octets < ord(" ")) | (octets == 0x7F)).any():
        return matches(texts, pattern)
    return pa.array(np.zeros(len(texts), bool))


def all_octets(values: pa.Array) -> Any:
    """The octets of texts or binary values, one after another, without a copy."""
    _, offsets, octets = values.buffers()
    if not len(values) or octets is None:
        return np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32)
    return np.frombuffer(octets, np.uint8)[ends[values.offset] : ends[values.offset + len(values)]]


def instants(texts: pa.Array) -> pa.Array:
    """ISO 8601 times; a time without a zone is UTC; NULL for what is none."""
    try:
        return texts.cast(INSTANT)
    except pa.ArrowInvalid:
        return pa.array([_instant(text) for text in texts.to_pylist()], INSTANT)


def event_ids(given: pa.Array, sources: pa.Array) -> pa.Array:
    """The ids as they are; a foreign one that is no UUID is turned into one, always the same."""
    sound = matches(given, _UUID)
    if pc.all(pc.or_(sound, pc.is_null(given)), min_count=0).as_py():
        return pc.ascii_lower(given)
    rows = zip(given.to_pylist(), sources.to_pylist(), sound.to_pylist(), strict=True)
    return pa.array([_event_id(*row) for row in rows], pa.string())


def selected(
    values: pa.Array, condition: pa.Array, make: Callable[[Any], Any], kind: pa.DataType
) -> pa.Array:
    """A value made in Python for the few rows for which the condition holds, else NULL."""
    if not is_any(condition):
        return pa.nulls(len(values), kind)
    rows = zip(values, condition.to_pylist(), strict=True)
    return pa.array([make(value.as_py()) if wanted else None for value, wanted in rows], kind)


def _instant(text: str | None) -> datetime | None:
    try:
        at = datetime.fromisoformat(text) if text is not None else None
        return at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC) if at else None
    except (ValueError, OverflowError):
        return None


def _event_id(given: str | None, source: str | None, sound: bool) -> str | None:
    if given is None or sound:
        return given.lower() if given else None
    return str(UUID(hashlib.md5(f"{source or ''}\x1f{given}".encode(), usedforsecurity=False).hexdigest()))
