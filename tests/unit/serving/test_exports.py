"""An export is data, whatever opens it."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily.serving.exports import ExportFormat, header, inert_cell, lines

DANGEROUS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1", '=HYPERLINK("http://x")']


@pytest.mark.parametrize("formula", DANGEROUS)
def test_a_formula_becomes_text(formula: str) -> None:
    assert inert_cell(formula) == f"'{formula}"


@given(st.text(max_size=40))
def test_no_cell_begins_like_a_formula(text: str) -> None:
    cell = inert_cell(text)
    assert cell.lstrip(" ")[:1] not in set("=+-@\t\r\n＝＋－＠") or not cell
    assert cell in (text, f"'{text}")


def test_a_csv_is_read_back_cell_by_cell() -> None:
    rows = [{"actor": 'a "quoted", one', "reason": "two\nlines", "allowed": True, "event_id": None}]
    columns = tuple(rows[0])
    text = header(ExportFormat.CSV, columns) + lines(ExportFormat.CSV, columns, rows)
    assert list(csv.DictReader(io.StringIO(text))) == [
        {"actor": 'a "quoted", one', "reason": "two\nlines", "allowed": "true", "event_id": ""}
    ]


def test_a_json_line_holds_one_document_as_it_is() -> None:
    rows = [{"actor": "=1+1", "reason": "two\nlines"}, {"actor": "Ö", "reason": ""}]
    text = lines(ExportFormat.JSONL, ("actor",), rows)
    assert [json.loads(line) for line in text.splitlines()] == rows
