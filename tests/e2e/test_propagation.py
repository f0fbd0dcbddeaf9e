"""The scenarios of docs/lineage.md through the public API of a running installation."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from websockets.sync.client import connect

from kit.eventually import eventually
from kit.graphs import GOVERNANCE, Graph, chain
from kit.platform import Platform
from kit.trino import QueryRefused, Trino, table_of
from lily.log.topics import Topic


@pytest.fixture
def graph(platform: Platform) -> Graph:
    return Graph(platform)


def test_01_a_tag_reaches_all_descendants_each_with_its_origin(graph: Graph) -> None:
    chain(graph)
    graph.tag("a")
    assert graph.having("PII", "a", "b", "c", "d") == "abcd"
    assert graph.origins("d") == ["a"]
    proof = graph.read(f"{GOVERNANCE}/classification/d", explain="true")["tags"][0]["origins"][0]["path"]
    assert [(edge["from_asset_id"], edge["to_asset_id"]) for edge in proof] == [
        ("a", "b"),
        ("b", "c"),
        ("c", "d"),
    ]


def test_02_03_31_the_switch_of_a_tag_decides_and_each_switch_tells_each_asset_once(graph: Graph) -> None:
    chain(graph)
    graph.tag("a", "secret")
    assert graph.having("secret", "a", "b", "c", "d") == "a"
    graph.define("secret", lineage=True)
    assert graph.having("secret", "a", "b", "c", "d") == "abcd"
    graph.define("secret", lineage=False)
    assert graph.having("secret", "a", "b", "c", "d") == "a"
    graph.define("secret", lineage=True)
    assert graph.having("secret", "a", "b", "c", "d") == "abcd"
    told = [row["asset_id"] for row in graph.retagged()]
    assert {asset: told.count(asset) for asset in "abcd"} == {"a": 1, "b": 3, "c": 3, "d": 3}


def test_04_untagging_the_origin_clears_everything_and_tells_each_asset_once(graph: Graph) -> None:
    chain(graph)
    graph.tag("a")
    graph.untag("a")
    assert graph.having("PII", "a", "b", "c", "d") == ""
    assert [row["removed"] for row in graph.retagged()[4:]] == [["PII"]] * 4


def test_05_of_two_origins_one_is_left(graph: Graph) -> None:
    graph.assets("a", "b", "c")
    graph.link("a>c", "b>c")
    graph.tag("a")
    graph.tag("b")
    assert graph.origins("c") == ["a", "b"]
    graph.untag("a")
    assert graph.having("PII", "a", "b", "c") == "bc"
    assert graph.origins("c") == ["b"]


def test_06_14_a_diamond_loses_the_tag_with_its_second_arm(graph: Graph) -> None:
    chain(graph)
    graph.link("a>c")
    graph.tag("a")
    graph.unlink("b>c")
    assert graph.having("PII", "c", "d") == "cd"
    graph.unlink("a>c")
    assert graph.having("PII", "a", "b", "c", "d") == "ab"


def test_07_37_members_of_a_cycle_do_not_support_each_other(graph: Graph) -> None:
    chain(graph)
    graph.link("d>a", "b>b")
    graph.tag("b")
    assert graph.having("PII", "a", "b", "c", "d") == "abcd"
    graph.untag("b")
    assert graph.having("PII", "a", "b", "c", "d") == ""


def test_08_a_tag_asserted_and_propagated_loses_one_ground_at_a_time(graph: Graph) -> None:
    graph.assets("a", "b")
    graph.link("a>b")
    graph.tag("a")
    graph.tag("b")
    graph.untag("b")
    assert graph.having("PII", "a", "b") == "ab"
    graph.tag("b")
    graph.untag("a")
    assert graph.having("PII", "a", "b") == "b"


def test_09_10_11_a_block_holds_for_its_tag_and_its_edge_alone(graph: Graph) -> None:
    chain(graph)
    graph.link("b>c", blocked_tags=["PII"])
    graph.tag("a", "PII", "GDPR")
    assert graph.having("PII", "a", "b", "c", "d") == "ab"
    assert graph.having("GDPR", "a", "b", "c", "d") == "abcd"
    graph.assets("x")
    graph.link("x>b")
    graph.tag("x")
    assert graph.having("PII", "c", "d") == ""
    graph.link("b>d")
    assert graph.having("PII", "c", "d") == "d"
    graph.link("b>c", blocked_tags=[])
    assert graph.having("PII", "c", "d") == "cd"


def test_12_of_many_origins_each_untag_costs_what_it_changes_until_the_last(graph: Graph) -> None:
    origins, leaves = [f"o{n}" for n in range(12)], [f"l{n}" for n in range(300)]
    graph.link(*(f"{origin}>hub" for origin in origins), *(f"hub>{leaf}" for leaf in leaves))
    graph.assets("hub", *origins)
    for origin in origins:
        graph.tag(origin)
    assert graph.tags("hub") == ["PII"]
    for origin in origins[:-1]:
        before = len(graph.retagged())
        graph.untag(origin)
        assert graph.tags("hub") == ["PII"]
        assert [row["asset_id"] for row in graph.retagged()[before:]] == [origin]
    before = len(graph.retagged())
    graph.untag(origins[-1])
    assert graph.tags("hub") == []
    assert len(graph.retagged()) - before == len(leaves) + 2


def test_13_27_28_edges_tags_and_assets_come_in_any_order(graph: Graph) -> None:
    graph.link("b>c")
    graph.assets("a")
    graph.tag("a", event_time="2026-05-01T00:00:00Z")
    graph.link("a>b")
    graph.assets("b", "c")
    assert graph.having("PII", "a", "b", "c") == "abc"
    old = {"asset_id": "a", "tags": ["GDPR"], "event_time": "2026-04-01T00:00:00Z"}
    graph._written(graph.call("POST", f"{GOVERNANCE}/classification", json=old))
    graph.link("a>b", event_time="2020-01-01T00:00:00Z", blocked_tags=["*"])
    assert graph.having("PII", "a", "b", "c") == "abc"


def test_15_16_what_is_deleted_stops_tags_until_it_is_restored(graph: Graph) -> None:
    chain(graph)
    graph.tag("a")
    graph.delete("b")
    assert graph.having("PII", "a", "c", "d") == "a"
    graph.assets("b", is_deleted=False)
    assert graph.having("PII", "a", "b", "c", "d") == "abcd"
    graph.delete("a")
    assert graph.having("PII", "b", "c", "d") == ""
    graph.delete("a", purge="true")
    assert graph.having("PII", "b", "c", "d") == ""


def test_17_18_19_containment_and_terms_follow_their_edges(graph: Graph) -> None:
    graph.define("internal", containment=True)
    graph.assets("old", "new", "t", "col")
    graph.link("old>t", "t>col", kind="contains")
    graph.tag("old", "internal")
    graph.tag("col", "PII")
    assert graph.having("internal", "old", "t", "col") == "oldtcol"
    assert graph.having("PII", "old", "t", "col") == "col"
    graph.unlink("old>t", kind="contains")
    graph.link("new>t", kind="contains")
    assert graph.having("internal", "t", "col") == ""
    graph.assets("term")
    graph.tag("term", "GDPR")
    graph.link("term>t", kind="used-in")
    assert graph.having("GDPR", "t") == "t"
    graph.unlink("term>t", kind="used-in")
    assert graph.having("GDPR", "t") == ""


def test_20_a_table_tag_does_not_smear_over_unrelated_columns(graph: Graph) -> None:
    graph.define("secret", lineage=True, containment=True)
    graph.assets("up", "up1", "down", "down1", "down2")
    graph.link("up>up1", "down>down1", "down>down2", kind="contains")
    graph.link("up>down")
    graph.tag("up", "secret")
    assert graph.having("secret", "down1", "down2") == "down1down2"
    graph.link("up1>down1")
    assert graph.having("secret", "down", "down1", "down2") == "downdown1"


def test_21_22_masking_stops_pii_and_indirect_edges_follow_the_rule(graph: Graph) -> None:
    graph.assets("a", "m", "i", "f")
    graph.link("a>m", transformation={"type": "DIRECT", "masking": True})
    graph.link("a>i", transformation={"type": "INDIRECT", "subtype": "FILTER"})
    graph.link("a>f", kind="used-in")
    graph.tag("a")
    assert graph.having("PII", "m", "i", "f") == "f"
    graph.define("PII", stopped_by_masking=False, lineage=True, indirect=True)
    assert graph.having("PII", "m", "i", "f") == "mif"


def test_26_of_a_tag_and_its_removal_the_later_event_wins(graph: Graph) -> None:
    graph.assets("a", "b", tags=["PII"], event_time="2026-01-01T00:00:00Z")
    graph.link("a>b")
    graph.untag("a")
    graph.untag("b")
    assert graph.having("PII", "a", "b") == ""
    graph.tag("a", event_time="2026-01-01T00:00:00Z")
    assert graph.having("PII", "a", "b") == ""


def test_32_an_edge_stays_within_one_tenant(graph: Graph) -> None:
    body = {"from_asset_id": "a", "to_asset_id": "b", "relationship_type": "uses", "to_tenant_id": "other"}
    assert graph.call("POST", "/lineage", json=body).status_code == 403


def test_35_36_saying_the_same_again_or_nothing_at_all_changes_nothing(graph: Graph) -> None:
    chain(graph)
    graph.tag("a")
    assert graph.having("PII", "d") == "d"
    before = graph.retagged()
    graph.assets("a", "b")
    graph.link("a>b", "b>c")
    assert graph.call("POST", "/lineage", json={"relationships": []}).json() == {"accepted": 0}
    graph.tag("a")
    assert graph.having("PII", "d") == "d"
    assert graph.retagged() == before


def test_an_opt_out_keeps_a_tag_from_an_asset_and_from_what_is_behind_it(graph: Graph) -> None:
    chain(graph)
    graph.tag("a")
    path = f"{GOVERNANCE}/classification/b/opt-out"
    graph._written(graph.call("PUT", path, json={"tags": ["PII"]}))
    assert graph.having("PII", "a", "b", "c", "d") == "a"
    graph._written(graph.call("DELETE", path, params={"tag": "PII"}))
    assert graph.having("PII", "a", "b", "c", "d") == "abcd"


def test_why_tells_also_about_a_tag_that_is_gone(graph: Graph) -> None:
    chain(graph)
    graph.tag("a")
    assert graph.having("PII", "c") == "c"
    graph.untag("a")
    why = graph.read(f"{GOVERNANCE}/classification/c/why", tag="PII")
    assert why["is_effective"] is False
    assert [change["outcome"] for change in why["history"]] == ["removed", "added"]
    assert why["history"][1]["reason"]["origin"] == "a"


def test_a_change_of_effective_tags_is_told_with_cause_and_origin(graph: Graph) -> None:
    chain(graph)
    graph.tag("a")
    record = graph.platform.find_record(
        Topic.METADATA_CHANGES,
        lambda message: (
            (message.key() or b"") == f"{graph.name}/d".encode() and b"retagged" in message.value()
        ),
    )
    told = json.loads(record.value() or b"")
    assert (told["added"], told["removed"], told["cause"]) == (["PII"], [], graph.last_event)
    assert told["reasons"]["PII"]["origin"] == "a"


def test_lineage_is_answered_with_its_nodes_and_says_when_there_is_more(graph: Graph) -> None:
    chain(graph)
    answer = graph.read("/lineage/b", direction="both", depth=1)
    assert {node["asset_id"] for node in answer["nodes"]} == {"a", "b", "c"}
    assert len(answer["relationships"]) == 2
    assert answer["truncated"] is True
    whole = graph.read("/lineage/a", direction="downstream", depth=3)
    assert (len(whole["relationships"]), whole["truncated"], whole["next_page_token"]) == (3, False, "")
    page = graph.read("/lineage/a", direction="downstream", depth=3, page_size=2)
    rest = graph.read(
        "/lineage/a", direction="downstream", depth=3, page_size=2, page_token=page["next_page_token"]
    )
    assert len(page["relationships"]) + len(rest["relationships"]) == 3


def test_lineage_can_be_asked_as_of_a_time_and_compared(graph: Graph) -> None:
    graph.assets("a", "b", "c")
    graph.link("a>b", event_time="2026-01-01T00:00:00Z")
    graph.link("a>c", event_time="2026-02-01T00:00:00Z")
    january = graph.read("/lineage/a", direction="downstream", as_of="2026-01-15T00:00:00Z")
    assert [edge["to_asset_id"] for edge in january["relationships"]] == ["b"]
    graph.unlink("a>b")
    diff = graph.read("/lineage/a/diff", **{"from": "2026-01-15T00:00:00Z"})
    assert [edge["to_asset_id"] for edge in diff["added"]] == ["c"]
    assert [edge["to_asset_id"] for edge in diff["removed"]] == ["b"]


def test_an_edge_lives_while_one_of_its_sources_asserts_it(graph: Graph) -> None:
    graph.assets("a", "b")
    graph.link("a>b", source="sql")
    graph.link("a>b", source="openlineage:run-1")
    graph.unlink("a>b", source="sql")
    assert graph.read("/lineage/a")["relationships"][0]["sources"] == ["openlineage:run-1"]
    graph.unlink("a>b")
    assert graph.read("/lineage/a")["relationships"] == []


def test_impact_and_paths(graph: Graph) -> None:
    chain(graph)
    graph.tag("c", "GDPR")
    impact = graph.read("/lineage/a/impact")
    assert (impact["total"], impact["by_type"], impact["by_tag"]) == (3, {"table": 3}, {"GDPR": 2})
    paths = graph.read("/lineage/paths", **{"from": "a", "to": "d"})["paths"]
    assert [edge["to_asset_id"] for edge in paths[0]] == ["b", "c", "d"]


def test_a_record_that_says_nothing_sensible_is_a_dead_letter(graph: Graph) -> None:
    asset = f"end-{uuid4().hex}"
    body = {"from_asset_id": asset, "to_asset_id": "b", "relationship_type": "likes"}
    assert graph.call("POST", "/lineage", json=body).status_code == 422


def test_a_tag_two_hops_upstream_masks_a_column_for_an_engine_and_is_told_live(graph: Graph) -> None:
    path, columns = "warehouse.sales.{}.email", ("raw", "orders", "report")
    bodies = [
        {"asset_id": name, "asset_name": "email", "asset_type": "column", "data_source": "pg"}
        | {"external_id": path.format(name), "metadata": {"data_type": "text"}}
        for name in columns
    ]
    graph._written(graph.call("POST", json={"assets": bodies}))
    graph.link("raw>orders", "orders>report")
    owner = {"authorization": f"Bearer {graph.platform.token(graph.name)}"}
    client = graph.platform.client
    assert client.post("/lily/v1/protection/rules", json={"tag": "PII"}, headers=owner).status_code == 201
    trino = Trino(client, graph.platform.token(graph.name, "engine"))
    report = table_of("warehouse", "sales", "report", "email")
    assert eventually(lambda: trino.select("ana", report) == {}, ignoring=(QueryRefused,))
    url = f"ws://127.0.0.1:{client.base_url.port}/ws/notifications"
    with connect(url, additional_headers=owner, proxy=None) as live:
        live.send(json.dumps({"type": "subscribe", "filters": {"tags": ["PII"], "metadata_ids": ["report"]}}))
        assert json.loads(live.recv(20))["type"] == "subscribed"
        graph.tag("raw")
        told = json.loads(live.recv(20))
    assert (told["metadata_id"], told["detail"]["added"]) == ("report", ["PII"])
    eventually(lambda: trino.select("ana", report) == {"email": "NULL"})
    graph.untag("raw")
    eventually(lambda: trino.select("ana", report) == {})
