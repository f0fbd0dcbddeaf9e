"""What is shown of edges that were read as columns."""

from __future__ import annotations

import json

import pytest

from lily.repositories.postgres.edges import BETWEEN, EdgeKey, Edges


def shown(edges: Edges, since: list[str] | None = None) -> list[dict[str, object]]:
    documents: list[dict[str, object]] = json.loads(f"[{edges.json(since)}]")
    return documents


def test_an_edge_that_is_gone_meanwhile_is_not_shown() -> None:
    columns = ("a" + BETWEEN + "b", "c" + BETWEEN + "d", "uses" + BETWEEN + "uses")
    described = (BETWEEN + '["sql"]', BETWEEN + "2026-01-02 03:04:05+00")
    edges = Edges.read((*columns, *described))
    assert shown(edges) == [
        {
            "from_asset_id": "b",
            "to_asset_id": "d",
            "relationship_type": "uses",
            "transformation": {"type": "DIRECT", "masking": False, "subtype": None},
            "blocked_tags": [],
            "sources": ["sql"],
            "asserted_at": "2026-01-02T03:04:05+00:00",
        }
    ]
    (dated,) = shown(edges, ["", ',"valid_from":"2026-01-01"'])
    assert dated["valid_from"] == "2026-01-01"


@pytest.mark.parametrize("odd", ['"', "\\", "\n", "\u2028", "é", "\\u001f"])
def test_an_id_is_shown_as_it_is(odd: str) -> None:
    at = "2026-01-02 03:04:05+00"
    edges = Edges(["plain", odd], [odd, "plain"], ["uses"] * 2, ["[]"] * 2, [at] * 2)
    assert [(each["from_asset_id"], each["to_asset_id"]) for each in shown(edges)] == [
        ("plain", odd),
        (odd, "plain"),
    ]


def test_no_answer_is_no_edges() -> None:
    assert list(Edges.read((None, None, None))) == []
    assert Edges.read((None,) * 5).json() == ""


def test_parts_keep_the_columns_together() -> None:
    edges = Edges(["a", "b", "c"], ["b", "c", "d"], ["uses"] * 3)
    assert list(edges.part(1, 1)) == [EdgeKey("b", "c", "uses")]
    chosen = [EdgeKey("a", "b", "uses"), EdgeKey("c", "d", "uses")]
    assert list(edges.where([True, False, True])) == list(Edges.of(chosen)) == chosen
    assert not Edges.of(())
