"""Recomputing everything in Spark finds no difference, finds every difference there is, and mends it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kit.events import at, next_id
from kit.lineage_model import Said
from kit.lineage_runs import Graph, history
from lily.pipeline.rebuild import Report, check, repair
from lily.repositories.postgres.rebuilds import Repair, settled_moment


@pytest.fixture
def graph(database: str) -> Iterator[Graph]:
    opened = Graph(database)
    yield opened
    opened.close()


def facts(graph: Graph) -> list[tuple[object, ...]]:
    columns = "tenant_id, asset_id, tag, is_partial, is_asserted, since, cause"
    return graph.connection.execute(
        f"SELECT {columns} FROM effective_tags ORDER BY 1, 2, 3, 4".encode()
    ).fetchall()


def random_state(graph: Graph) -> None:
    graph.apply(
        {f"tenant-{seed}": [s for piece in history(seed, scale=3) for s in piece] for seed in range(40)}
    )


def found(report: Report) -> dict[str, int]:
    return {name: number for name, number in report.differences.items() if number}


def test_what_was_damaged_is_found_and_put_right_and_else_there_is_no_difference(
    graph: Graph, spark: SparkSession
) -> None:
    random_state(graph)
    said = [
        Said(next_id(), at(0), "edge", True, "api", f"n{n}", f"n{n + 1}", "derived-from")
        for n in range(1_000)
    ]
    graph.apply({"chain": [*said, Said(next_id(), at(0), "tag", True, "user", "n0", tags=("PII",))]})
    right, edges = (
        facts(graph),
        graph.connection.execute("SELECT * FROM edges ORDER BY 1, 2, 3, 4").fetchall(),
    )
    lost = graph.connection.execute(
        "DELETE FROM effective_tags WHERE ctid IN (SELECT ctid FROM effective_tags WHERE is_asserted LIMIT 5)"
        " RETURNING tenant_id, asset_id, tag"
    ).fetchall()
    graph.connection.execute(
        "INSERT INTO effective_tags VALUES"
        " ('tenant-1', 'a', 'made up', false, false, 'b', 'uses', false, now(), gen_random_uuid())"
    )
    graph.connection.execute("DELETE FROM edges WHERE ctid IN (SELECT ctid FROM edges LIMIT 3)")
    before = graph.connection.execute("SELECT coalesce(max(seq), 0) FROM tag_changes").fetchone()
    found_damage = check(spark, graph.url)
    damage = found(found_damage)
    assert found_damage.facts == len(right) > 1_200
    assert (damage["missing_effective_tags"], damage["missing_edges"]) == (5, 3)
    assert damage["extra_effective_tags"] == 1
    assert damage["unrooted_facts"] >= 1
    assert found(repair(spark, graph.url, "", print)) == damage
    assert check(spark, graph.url).is_right
    one = check(spark, graph.url, "chain")
    assert (one.is_right, one.edges, one.facts) == (True, 1_000, 1_001)
    assert [row[:5] for row in facts(graph)] == [row[:5] for row in right]
    assert graph.connection.execute("SELECT * FROM edges ORDER BY 1, 2, 3, 4").fetchall() == edges
    told = graph.connection.execute(
        "SELECT tenant_id, asset_id, unnest(added || removed) FROM tag_changes WHERE seq > %s", before
    ).fetchall()
    assert sorted(told) == sorted([*set(lost), ("tenant-1", "a", "made up")])


def test_a_repair_gives_way_when_propagation_has_gone_on(graph: Graph) -> None:
    random_state(graph)
    with settled_moment(graph.url) as moment:
        graph.apply({"tenant-1": [Said(next_id(), at(99), "tag", True, "user", "a", tags=("late",))]})
        assert not Repair(tags=[("tenant-1", "late")]).apply(graph.url, moment.positions, next_id())
    assert "late" in graph.effective("tenant-1")["tenant-1"]["a"]
