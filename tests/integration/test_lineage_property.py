"""Whatever is said in whatever order: the effective tags are what the definition says, after every batch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from kit.databases import Databases
from kit.events import at, next_id
from kit.lineage_model import Said
from kit.lineage_runs import Graph, difference, history, random_edges
from kit.model import Event
from lily.domain.assets import Field
from lily.repositories.postgres import migrations
from lily.repositories.postgres.edges import Edges
from lily.repositories.postgres.lineage import ALL_TYPES
from lily.repositories.postgres.queries import load

#: Sequences of operations; `LILY_LINEAGE_SEQUENCES=100000` for a long run.
SEQUENCES = int(os.environ.get("LILY_LINEAGE_SEQUENCES", "2000"))
SIDE_BY_SIDE = 200
#: Of a hub; `LILY_LINEAGE_LEAVES=1000000` for a long run.
LEAVES = int(os.environ.get("LILY_LINEAGE_LEAVES", "20000"))


@pytest.fixture
def graph(database: str) -> Iterator[Graph]:
    opened = Graph(database)
    yield opened
    opened.close()


def test_effective_tags_equal_the_definition_after_every_batch_and_crash(graph: Graph) -> None:
    for first in range(0, SEQUENCES, SIDE_BY_SIDE):
        last = min(first + SIDE_BY_SIDE, SEQUENCES)
        histories = {f"tenant-{seed}": history(seed) for seed in range(first, last)}
        assert difference(graph, histories) is None


def test_nor_does_it_matter_who_is_followed_alone(database: str) -> None:
    graph = Graph(database, most_together=25)
    histories = {f"apart-{seed}": history(seed, scale=2) for seed in range(100)}
    assert difference(graph, histories) is None
    fell_behind = graph.connection.execute("SELECT pg_sequence_last_value('untold_tag_changes_number_seq')")
    assert fell_behind.fetchone() > (100,)
    graph.close()


def test_a_tenant_with_much_to_do_keeps_nobody_waiting(database: str) -> None:
    graph = Graph(database, most_together=100)
    leaves = [_edge("hub", f"leaf-{n}") for n in range(500)]
    graph.apply({"large": [*leaves, _tag("hub")], "small": [_edge("a", "b"), _tag("a")]}, propagate=False)
    while graph.propagator.run():
        pass
    assert graph.effective() == {"small": {asset: frozenset({"PII"}) for asset in "ab"}}
    assert (graph.followed("large"), graph.followed("small")) == (0, 2)  # what `Lily-After` goes by
    graph.apply({})
    assert len(graph.effective()["large"]) == 501
    assert graph.followed("large") == 501
    told = graph.connection.execute("SELECT count(*), count(DISTINCT asset_id) FROM tag_changes").fetchone()
    assert told == (503, 503)
    graph.close()


@pytest.mark.parametrize("most_together", [4, 1000])
def test_every_change_is_told_with_its_own_reason_whoever_tells_it(database: str, most_together: int) -> None:
    graph = Graph(database, most_together=most_together)
    one, other = _tag("a"), _tag("x")
    said = [_edge("a", "b"), _edge("b", "c"), *(_edge("x", f"y{n}") for n in range(9)), one, other]
    graph.apply({"acme": said})
    assert _reasons(graph) == {
        "a": _reason(one, "a"),
        "b": _reason(one, "a", "a"),
        "c": _reason(one, "a", "b"),
        "x": _reason(other, "x"),
        **{f"y{n}": _reason(other, "x", "x") for n in range(9)},
    }
    graph.connection.execute("TRUNCATE tag_changes")
    gone = _tag("x", holds=False)
    graph.apply({"acme": [gone]})
    assert _reasons(graph) == dict.fromkeys(["x", *(f"y{n}" for n in range(9))], _reason(gone, "x"))
    followed_alone = graph.connection.execute("SELECT count(*) FROM propagation_arrears").fetchone()
    assert followed_alone == (0,)
    graph.close()


def test_what_is_told_of_many_alike_is_kept_together_and_told_of_each(database: str) -> None:
    graph = Graph(database, most_together=100)
    tag = _tag("hub")
    graph.apply({"acme": [*(_edge("hub", f"leaf-{n}") for n in range(2500)), tag]}, propagate=False)
    while graph.propagator.run():
        pass
    graph.apart.run_apart()
    kept = graph.connection.execute("SELECT sum(assets), count(*) < 10 FROM untold_tag_changes").fetchone()
    assert kept == (2501, True)
    graph.follow()
    leaves = dict.fromkeys((f"leaf-{n}" for n in range(2500)), _reason(tag, "hub", "hub"))
    assert _reasons(graph) == {"hub": _reason(tag, "hub")} | leaves
    graph.close()


def test_what_waited_to_be_told_before_an_upgrade_is_told_after_it(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, cause = databases.create_empty(), _tag("a")
    others = [script for script in migrations._scripts() if script[0] != 29]
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "_scripts", lambda: others)
        migrations.migrate_database(url)
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO untold_tag_changes (tenant_id, asset_id, cause, added, removed, via_from, via_type,"
            " origin, applied_at) VALUES ('acme', 'b', %s, '{PII}', '{}', 'a', 'derived-from', 'a', now())",
            (cause.event_id,),
        )
        connection.execute("INSERT INTO propagation_arrears VALUES ('acme', 'lineage', 0)")
    migrations.migrate_database(url)
    graph = Graph(url)
    graph.propagator.run()
    assert _reasons(graph) == {"b": _reason(cause, "a", "a")}
    graph.close()
    databases.drop(url)


def _reason(cause: Said, origin: str, via: str | None = None) -> object:
    over = {} if via is None else {"from": via, "relationship_type": "derived-from"}
    return {"PII": {"cause": str(cause.event_id), "origin": origin, **over}}


def _reasons(graph: Graph) -> dict[str, object]:
    return dict(graph.connection.execute("SELECT asset_id, reasons FROM tag_changes").fetchall())


def test_a_sink_of_many_is_taken_away_and_put_back(graph: Graph) -> None:
    sources = [f"source-{n}" for n in range(LEAVES // 4)]
    named = {Field.ASSET_NAME: "sink", Field.ASSET_TYPE: "table"}
    graph.apply({"acme": [_edge(each, "sink") for each in sources] + [_tag(each) for each in sources]})
    for minute, is_deleted in ((1, True), (2, False)):
        fields = named | {Field.IS_DELETED: is_deleted}
        graph.apply({"acme": [Event(next_id(), at(minute), "sink", fields)]})
        assert ("sink" in graph.effective()["acme"]) is not is_deleted


def test_on_larger_graphs_too_propagation_equals_the_oracle(graph: Graph) -> None:
    histories = {f"large-{seed}": history(seed, pieces=12, scale=4) for seed in range(40)}
    assert difference(graph, histories) is None
    told = graph.connection.execute("SELECT count(*) FROM tag_changes").fetchone()
    assert told > (0,)
    assert _told_with_a_foreign_cause(graph) == (0,)


def test_a_run_that_dies_before_its_commit_is_repeated_whole(graph: Graph) -> None:
    graph.apply({"acme": [_edge("a", "b"), _edge("b", "c"), _tag("a")]}, propagate=False)
    connection = graph.propagator._open()
    with connection.transaction(force_rollback=True), connection.cursor() as cursor:
        graph.propagator._follow(cursor)
    assert graph.effective() == {}
    assert graph.propagator.run() is not None
    assert graph.effective()["acme"] == {asset: frozenset({"PII"}) for asset in "abc"}
    told = graph.connection.execute("SELECT count(*), count(DISTINCT asset_id) FROM tag_changes").fetchone()
    assert told == (3, 3)


def test_many_origins_are_untagged_one_by_one_for_next_to_nothing(graph: Graph) -> None:
    leaves = 2_000
    origins = [f"origin-{n}" for n in range(40)]
    graph.apply(
        {
            "acme": [_edge(origin, "hub") for origin in origins]
            + [_edge("hub", f"leaf-{n}") for n in range(leaves)]
            + [_tag(origin) for origin in origins]
        }
    )
    for origin in origins[:-1]:
        graph.apply({"acme": [_tag(origin, holds=False)]}, propagate=False)
        done = graph.propagator.run()
        assert done is not None
        assert (done.taken, done.told) == (1, 1)
    graph.apply({"acme": [_tag(origins[-1], holds=False)]}, propagate=False)
    done = graph.propagator.run()
    assert done is not None
    assert done.told == leaves + 2
    assert graph.effective() == {}


def _told_with_a_foreign_cause(graph: Graph) -> object:
    """How many changes are said to be caused by an event that nobody of their tenant sent."""
    return graph.connection.execute(
        """SELECT count(*) FROM tag_changes AS t
            WHERE NOT EXISTS (SELECT FROM lineage_events AS e
                               WHERE e.tenant_id = t.tenant_id AND e.event_id = t.cause)
              AND NOT EXISTS (SELECT FROM changes AS c
                               WHERE c.tenant_id = t.tenant_id AND c.event_id = t.cause)"""
    ).fetchone()


@pytest.mark.parametrize("closed", [True, False])
def test_a_long_chain_or_cycle_is_tagged_and_cleared(graph: Graph, closed: bool) -> None:
    length = 10_000
    edges = [_edge(f"n{n}", f"n{n + 1}") for n in range(length)]
    if closed:
        edges.append(_edge(f"n{length}", "n0"))
    graph.apply({"acme": [*edges, _tag("n0")]})
    assert len(graph.effective()["acme"]) == length + 1
    graph.apply({"acme": [_tag("n0", holds=False)]})
    assert graph.effective() == {}


def test_a_hub_is_tagged_and_cleared_whole(graph: Graph) -> None:
    for first in range(0, LEAVES, 20_000):
        graph.apply({"acme": [_edge("hub", f"leaf-{n}") for n in range(first, min(first + 20_000, LEAVES))]})
    graph.apply({"acme": [_tag("hub")]}, propagate=False)
    assert graph.follow().told == LEAVES + 1
    graph.apply({"acme": [_tag("hub", holds=False)]}, propagate=False)
    done = graph.follow()
    assert (done.taken, done.told) == (LEAVES + 1, LEAVES + 1)


def test_the_whole_log_replayed_from_zero_gives_the_same_tags_and_edges(graph: Graph, database: str) -> None:
    pieces = [{f"tenant-{seed}": history(seed)[step] for seed in range(30)} for step in range(4)]
    for piece in pieces:
        graph.apply(piece)
    before = graph.effective(), _edges(graph)
    graph.connection.execute(
        "TRUNCATE assets, changes, lineage_events, edge_assertions, edges, refined_pairs, tag_assertions,"
        " tag_opt_outs, tag_definitions, effective_tags, tag_changes, propagation_positions, stream_positions"
    )
    again = Graph(database)
    again.apply({tenant: [said for piece in pieces for said in piece[tenant]] for tenant in pieces[0]})
    assert (again.effective(), _edges(again)) == before
    again.close()


def test_an_asset_that_two_definitions_of_one_batch_are_about_is_followed_once(graph: Graph) -> None:
    said = {Field.ASSET_NAME: "a", Field.ASSET_TYPE: "table"}
    said |= {Field.ASSET_OWNER: "ada", Field.BUSINESS_TERMS: ["tax"]}
    graph.apply({"acme": [Event(next_id(), at(1), "a", said)]})
    graph.apply({"acme": [_definition("@owner:*"), _definition("@term:*")]})
    assert graph.effective("acme") == {"acme": {"a": frozenset({"@owner:ada", "@term:tax"})}}


def test_lineage_as_of_now_is_the_lineage_whatever_its_sources_disagree_about(graph: Graph) -> None:
    said = {f"tenant-{seed}": random_edges(seed, "abc", 40) for seed in range(20)}
    graph.apply(said)
    queries = load("lineage.sql")
    found = 0
    for tenant in said:
        asked = {"tenant_id": tenant, "as_of": at(60), "types": list(ALL_TYPES), "most": 10_000}
        asked |= {"upstream": False, "frontier": "a\x1fb\x1fc"}
        then, now = (
            sorted(_shown(graph.connection.execute(queries[name], asked).fetchall()[0]), key=json.dumps)
            for name in ("edges_as_of", "described_downstream")
        )
        assert then == now
        found += sum(len(edge["sources"]) > 1 for edge in then)
    assert found > 20, "hardly any edge has two sources: this shows nothing"


def _shown(columns: tuple[str | None, ...]) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = json.loads(f"[{Edges.read(columns).json()}]")
    return shown


def _edges(graph: Graph) -> list[tuple[object, ...]]:
    columns = "tenant_id, from_id, relationship_type, to_id, is_indirect, is_masking, blocked_tags, sources"
    return graph.connection.execute(f"SELECT {columns} FROM edges ORDER BY 1, 2, 3, 4".encode()).fetchall()


def _edge(start: str, end: str) -> Said:
    return Said(next_id(), at(0), "edge", True, "api", start, end, "derived-from")


def _tag(asset: str, holds: bool = True) -> Said:
    return Said(next_id(), at(0), "tag", holds, "user", asset, tags=("PII",))


def _definition(tag: str) -> Said:
    return Said(next_id(), at(2), "definition", True, "user", tags=(tag,), body={"lineage": True})
