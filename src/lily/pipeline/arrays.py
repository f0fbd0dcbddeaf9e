"""Column functions over Arrow arrays that pyarrow does not have in one piece."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
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
    if pc.all(condition, min_count=0).as_py():
        return values
    if not is_any(condition):
        return pa.nulls(len(values), values.type)
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def is_any(condition: pa.Array) -> bool:
    """Whether it holds for any."""
    return bool(pc.any(condition, min_count=0).as_py())


def matches(texts: pa.Array, pattern: str) -> pa.Array:
    return is_true(pc.match_substring_regex(texts, pattern))


class Headers:
    """The headers of a batch of records, by name."""

    def __init__(self, headers: pa.ListArray) -> None:
        names, self._values = headers.flatten().flatten()
        encoded = names.dictionary_encode()
        self._codes = {name: code for code, name in enumerate(encoded.dictionary.to_pylist())}
        self._names = encoded.indices.to_numpy()
        lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy()
        self._records = np.repeat(np.arange(len(headers)), lengths)
        self._count = len(headers)

    def texts(self, name: str) -> pa.Array:
        """The last value of that name in every record, as text; NULL when it is absent.

        Bytes that are no UTF-8 become text with a NUL in it, which no rule lets through.
        """
        if name not in self._codes:
            return pa.nulls(self._count, pa.string())
        found = np.flatnonzero(self._names == self._codes[name])
        places = np.full(self._count, -1)
        places[self._records[found]] = found  # of several, the last stays
        values = pc.take(self._values, pa.array(places, mask=places < 0))
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.array([_text(value) for value in values.to_pylist()], pa.string())


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
        return pc.utf8_lower(given)
    rows = zip(given.to_pylist(), sources.to_pylist(), sound.to_pylist(), strict=True)
    return pa.array([_event_id(*row) for row in rows], pa.string())


def bits(keys: Sequence[tuple[str, ...]], values: Mapping[str, int]) -> pa.Array:
    """For every set of names the sum of their bits; unknown names have none."""
    sums = {names: sum(values.get(name, 0) for name in names) for names in set(keys)}
    return pa.array(list(map(sums.__getitem__, keys)), pa.int16())


def selected(
    values: pa.Array, condition: pa.Array, make: Callable[[Any], Any], kind: pa.DataType
) -> pa.Array:
    """A value made in Python for the few rows for which the condition holds, else NULL."""
    if not is_any(condition):
        return pa.nulls(len(values), kind)
    rows = zip(values, condition.to_pylist(), strict=True)
    return pa.array([make(value.as_py()) if wanted else None for value, wanted in rows], kind)


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode(errors="replace") + "\0"


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
