"""Exports of entries as JSON lines and as CSV that a spreadsheet does not run."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

#: What spreadsheets take for the beginning of a formula, the full-width forms included.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


class ExportFormat(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"


MEDIA_TYPES = {ExportFormat.JSONL: "application/x-ndjson", ExportFormat.CSV: "text/csv; charset=utf-8"}


def header(fmt: ExportFormat, columns: Sequence[str]) -> str:
    """What an export begins with."""
    return _csv([columns]) if fmt is ExportFormat.CSV else ""


def lines(fmt: ExportFormat, columns: Sequence[str], documents: Iterable[Mapping[str, Any]]) -> str:
    """The lines of these documents."""
    if fmt is ExportFormat.CSV:
        return _csv([inert_cell(document[name]) for name in columns] for document in documents)
    return "".join(json.dumps(document, ensure_ascii=False) + "\n" for document in documents)


def inert_cell(value: Any) -> str:
    """A value as a cell that is shown, never calculated: a formula gets an apostrophe in front."""
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA_STARTS) or text[:1].isspace() else text


def _csv(rows: Iterable[Sequence[str]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerows(rows)
    return buffer.getvalue()
