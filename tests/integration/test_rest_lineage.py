"""What is shown of lineage, whatever the ids look like and however much is asked for at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from rest_kit import ASSETS, Gateway

from lily.repositories.postgres.edges import Edges
from lily.repositories.postgres.lineage import PostgresLineage

AT = datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)
ODD = ('q"uo\\te', "naïve-☃-𝄞", "a b/c%d?e#f", "{}")
#: Up to the usual size of a page each edge is described by itself, beyond it all of a hop are.
SIZES = (1000, 2000)


@pytest.fixture
def api(running: Gateway) -> Gateway:
    for table in ("edges", "assets", "effective_tags"):
        running.execute(f"DELETE FROM {table}")
    return running


def link(api: Gateway, start: str, end: str, kind: str = "derived-from", **more: Any) -> None:
    row = {"tenant_id": "acme", "from_id": start, "to_id": end, "relationship_type": kind, "asserted_at": AT}
    api.insert("edges", row | more)


def ask(api: Gateway, asset: str, **asked: Any) -> dict[str, Any]:
    answer = api.call("GET", f"{ASSETS}/lineage/{asset}", params={"depth": 9} | asked)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("size", SIZES)
def test_everything_that_is_said_of_an_edge_is_shown(api: Gateway, size: int) -> None:
    link(api, "a", "b", is_indirect=True, is_masking=True, subtype='HA"SH', blocked_tags=["PII", 'x"y'])
    link(api, "a", "c", "uses", sources=["sql", 'o"dd'])
    link(api, "a", "d", is_masking=True)
    found = ask(api, "a", direction="downstream", page_size=size)["relationships"]
    plain = {"type": "DIRECT", "masking": False, "subtype": None}
    assert {each["to_asset_id"]: each["transformation"] for each in found} == {
        "b": {"type": "INDIRECT", "masking": True, "subtype": 'HA"SH'},
        "c": plain,
        "d": plain | {"masking": True},
    }
    assert [each["blocked_tags"] for each in found if each["blocked_tags"]] == [["PII", 'x"y']]
    assert [each["sources"] for each in found if each["sources"]] == [["sql", 'o"dd']]
    assert {each["asserted_at"] for each in found} == {"2026-01-02T03:04:05.0006+00:00"}


@pytest.mark.parametrize("size", SIZES)
def test_odd_ids_come_back_as_they_are_in_both_directions(api: Gateway, size: int) -> None:
    for odd in ODD:
        link(api, odd, "middle")
        link(api, "middle", odd + "'", "used-in")
        api.stored(asset_id=odd, asset_name=odd, asset_owner=odd, data_source=odd)
        tag = {
            "tenant_id": "acme",
            "asset_id": odd,
            "tag": f"t{odd}",
            "is_asserted": True,
            "is_partial": False,
        }
        api.insert("effective_tags", tag | {"since": AT, "cause": "00000000-0000-0000-0000-000000000001"})
    found = ask(api, "middle", direction="both", page_size=size)
    ends = {(each["from_asset_id"], each["to_asset_id"]) for each in found["relationships"]}
    assert ends == {(odd, "middle") for odd in ODD} | {("middle", odd + "'") for odd in ODD}
    nodes = {node["asset_id"]: node for node in found["nodes"]}
    assert nodes.keys() == {"middle", *ODD, *(odd + "'" for odd in ODD)}
    for odd in ODD:
        node = nodes[odd]
        assert {node["asset_name"], node["asset_owner"], node["data_source"]} == {odd}
        assert (node["tags"], node["is_known"], node["depth"]) == ([f"t{odd}"], True, 1)
        assert (nodes[odd + "'"]["is_known"], nodes[odd + "'"]["tags"]) == (False, [])


def test_an_asset_looks_the_same_in_lineage_and_in_impact(api: Gateway) -> None:
    api.stored(asset_id="known", asset_name="Known", asset_owner="ada", data_source="pg")
    api.stored(asset_id="bare", asset_name="Bare")
    api.stored(asset_id="nameless", asset_name=None)
    for start, end in (("start", "known"), ("known", "bare"), ("bare", "nameless"), ("start", "unknown")):
        link(api, start, end)
    found = {each["asset_id"]: each for each in ask(api, "start", direction="downstream")["nodes"]}
    impact = api.call("GET", f"{ASSETS}/lineage/start/impact").json()["assets"]
    assert {each["asset_id"]: each for each in impact} == {k: v for k, v in found.items() if k != "start"}
    assert {end for end, each in found.items() if each["is_known"]} == {"known", "bare"}
    depths = {"start": 0, "known": 1, "unknown": 1, "bare": 2, "nameless": 3}
    assert {end: each["depth"] for end, each in found.items()} == depths
    api.stored(asset_id="gone", is_deleted=True)
    link(api, "start", "gone")
    nodes = ask(api, "start", direction="downstream")["nodes"]
    assert [each["asset_id"] for each in nodes if each["is_deleted"]] == ["gone"]


@pytest.mark.parametrize("size", [700, 2000])
def test_pages_of_any_size_show_every_edge_once_with_its_ends(api: Gateway, size: int) -> None:
    api.execute(
        "INSERT INTO edges (tenant_id, from_id, to_id, relationship_type, asserted_at)"
        " SELECT 'acme', 'n' || (n / 3), 'n' || n, 'derived-from', now() FROM generate_series(1, 6000) AS n"
    )
    link(api, "n6000", "n0")  # round in a circle
    whole = ask(api, "n0", direction="both", page_size=50_000)
    assert (len(whole["relationships"]), whole["next_page_token"]) == (6001, "")
    depths = [node["depth"] for node in whole["nodes"][:2000]]
    assert depths == sorted(depths)
    pages, token = [], ""
    while not pages or token:
        page = ask(api, "n0", direction="both", page_size=size, page_token=token)
        shown = [{k: v for k, v in each.items() if k != "valid_from"} for each in page["relationships"]]
        nodes = [node["asset_id"] for node in page["nodes"]]
        assert len(nodes) == len(set(nodes))
        assert set(nodes) == {each[end] for each in shown for end in ("from_asset_id", "to_asset_id")}
        pages += shown
        token = page["next_page_token"]
    assert pages == whole["relationships"]


def test_a_deleted_asset_stays_out_whenever_and_from_wherever_it_is_met(api: Gateway) -> None:
    api.stored(asset_id="gone", is_deleted=True)
    for start, end in ("ab", "bc", "ca"):
        link(api, start, end)
        link(api, end, "gone")
        link(api, "gone", end)
    link(api, "gone", "below")
    for direction in ("upstream", "downstream", "both"):
        found = ask(api, "a", direction=direction, remove_deleted=True)
        assert {node["asset_id"] for node in found["nodes"]} == {"a", "b", "c"}
        ends = [each["from_asset_id"] + each["to_asset_id"] for each in found["relationships"]]
        assert sorted(ends) == ["ab", "bc", "ca"]


def test_an_edge_that_goes_while_it_is_asked_for_is_left_out(
    api: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    link(api, "a", "b")
    link(api, "b", "c")
    described = PostgresLineage.described

    async def later(self: PostgresLineage, tenant_id: str, edges: Edges) -> Edges:
        api.execute("DELETE FROM edges WHERE to_id = 'c'")
        return await described(self, tenant_id, edges)

    monkeypatch.setattr(PostgresLineage, "described", later)
    found = ask(api, "a", direction="downstream")["relationships"]
    assert [each["to_asset_id"] for each in found] == ["b"]
    link(api, "b", "c")
    answer = api.call("GET", f"{ASSETS}/lineage/paths", params={"from": "a", "to": "c"})
    assert answer.json()["paths"] == []


def test_what_is_only_an_edge_s_end_is_there_whichever_edges_are_asked_for(api: Gateway) -> None:
    link(api, "a", "b")
    for asked in ({"direction": "downstream"}, {"types": "uses"}):
        found = ask(api, "b", **asked)
        assert ([node["asset_id"] for node in found["nodes"]], found["relationships"]) == (["b"], [])
    since = {"from": "2026-01-01T00:00:00Z"}
    assert api.call("GET", f"{ASSETS}/lineage/b/diff", params=since).status_code == 200
    for path in ("c", "c/diff", "c/impact"):
        answer = api.call("GET", f"{ASSETS}/lineage/{path}", params=since)
        assert (answer.status_code, answer.json()["detail"]) == (404, "there is no asset 'c'")
