"""Reads one payload that is out of the ordinary: what is meant is kept, what cannot be is told.

Slow and complete: the parser of batches (`payloads.py`) leaves to it whatever it does not take.
"""

from __future__ import annotations

import json
import re
from functools import partial
from itertools import accumulate
from typing import Any, NoReturn

from pydantic_core import from_json

from lily.log.envelope import MAX_EVENT_BYTES

NOT_UTF8, MALFORMED, BAD_METADATA = "not_utf8", "malformed", "bad_metadata"

TEXTS = (
    "asset_id",
    "asset_name",
    "asset_type",
    "asset_owner",
    "description",
    "data_source",
    "external_id",
    "tag_origin",
    "created_at",
    "event_time",
    "updated_at",
)
LISTS = ("business_terms", "tags")
VERSIONS = range(-(2**31), 2**31)
#: As deep as the parser goes; who reads the change later goes no deeper either.
MOST_LEVELS = 200

_TYPES: dict[str, type[Any]] = {**dict.fromkeys(LISTS, list), "is_deleted": bool, "expected_version": int}
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_LEVELS = {ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}

Row = dict[str, Any]

parse = partial(from_json, allow_inf_nan=False)


def read_odd(value: bytes | None) -> tuple[Row, str | None]:
    """What the payload says, its `metadata` as JSON text, and why it cannot be read.

    A value that is missing or too large says nothing; that is for others to judge.
    """
    if not value or len(value) > MAX_EVENT_BYTES:
        return {}, None
    try:
        row = _with_texts(_object(value))
    except UnicodeDecodeError:
        return {}, NOT_UTF8
    except (TypeError, ValueError, RecursionError):
        return {}, MALFORMED
    if row.get("metadata") is None:
        return row, None
    text = _metadata_text(row["metadata"])
    return row | {"metadata": text}, None if text else BAD_METADATA


def _object(value: bytes) -> Row:
    try:
        row = parse(value)
    except ValueError:
        # This parser takes half a character, which may stand where nobody minds.
        row = json.loads(_shallow(value).decode(), parse_constant=_refuse)
    if not isinstance(row, dict):
        raise TypeError("no object")
    return row


def _shallow(value: bytes) -> bytes:
    steps = (_LEVELS.get(character, 0) for character in _STRING.sub(b"", value))
    if any(level > MOST_LEVELS for level in accumulate(steps)):
        raise ValueError("too deep")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _with_texts(row: Row) -> Row:
    """The same with text where text is asked for."""
    kept = row | {name: _text(row[name]) for name in TEXTS if name in row}
    for name, kind in _TYPES.items():
        value = row.get(name)
        if value is not None and type(value) is not kind:
            raise TypeError(name)
        if name in LISTS and value is not None:
            kept[name] = [_text(item) for item in value]
    if (kept.get("expected_version") or 0) not in VERSIONS:
        raise TypeError("expected_version")
    return kept


def _text(value: Any) -> str | None:
    """Another JSON value as its own text, but for a fraction: its digits would be others than were written.

    Half a character, which no text can hold, becomes a question mark.
    """
    if value is None:
        return None
    if isinstance(value, float):
        raise TypeError("a fraction")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace").decode()


def _metadata_text(said: Any) -> str | None:
    """As JSON text; NULL for what is no object, or what PostgreSQL cannot keep."""
    try:
        if isinstance(said, dict):
            text = json.dumps(said, allow_nan=False, ensure_ascii=False)
            text.encode()
            return text
    except (ValueError, RecursionError):
        pass
    return None
