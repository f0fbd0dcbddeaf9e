"""What is shown of edges that were read as columns."""

from __future__ import annotations

import json

from lily.repositories.postgres.edges import BETWEEN, EdgeKey, Edges


def test_an_edge_that_is_gone_meanwhile_shows_nothing_and_keeps_its_place() -> None:
    columns = ("a" + BETWEEN + "b", "c" + BETWEEN + "d", "uses" + BETWEEN + "uses")
    described = ('["sql"]' + BETWEEN, "2026-01-02 03:04:05+00" + BETWEEN)
    first, second = Edges.read((*columns, *described)).documents()
    assert json.loads(first) == {
        "from_asset_id": "a",
        "to_asset_id": "c",
        "relationship_type": "uses",
        "transformation": {"type": "DIRECT", "masking": False, "subtype": None},
        "blocked_tags": [],
        "sources": ["sql"],
        "asserted_at": "2026-01-02T03:04:05+00:00",
    }
    assert second == ""


def test_no_answer_is_no_edges() -> None:
    assert list(Edges.read((None, None, None))) == []
    assert Edges.read((None,) * 5).documents() == []


def test_parts_keep_the_columns_together() -> None:
    edges = Edges(["a", "b", "c"], ["b", "c", "d"], ["uses"] * 3)
    assert list(edges.part(1, 1)) == [EdgeKey("b", "c", "uses")]
    chosen = [EdgeKey("a", "b", "uses"), EdgeKey("c", "d", "uses")]
    assert list(edges.where([True, False, True])) == list(Edges.of(chosen)) == chosen
    assert not Edges.of(())
