"""What a preview tells is what then happens; what is shown of an asset is what is in force on it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from rest_kit import ASSETS, Gateway, gateway

from kit.events import at, next_id
from kit.eventually import eventually
from kit.lineage_model import Said
from kit.lineage_runs import Graph, Piece, history
from kit.model import Event, purge
from lily.domain.assets import Field
from lily.settings import Settings

PREVIEW = f"{ASSETS}/governance/classification/preview"
RULES = "/lily/v1/protection/rules"


@dataclass
class World:
    """A database the pipeline's parts write, and the gateway that reads it."""

    api: Gateway
    graph: Graph
    minute: int = 1000

    def say(self, *said: Said | Event, tenant: str = "acme") -> None:
        self.graph.apply({tenant: list(said)})

    def tag(self, asset: str, tag: str, holds: bool = True, tenant: str = "acme", source: str = "") -> None:
        self.minute += 1
        source = source or ("user" if holds else "*")
        self.say(Said(next_id(), at(self.minute), "tag", holds, source, asset, tags=(tag,)), tenant=tenant)

    def told(self, tenant: str = "acme") -> list[tuple[str, list[str], list[str]]]:
        query = "SELECT asset_id, added, removed FROM tag_changes WHERE tenant_id = %s ORDER BY seq"
        return self.api.fetch(query, tenant)

    def ask(self, method: str, path: str, tenant: str = "acme", role: str = "owner", **options: Any) -> Any:
        answer = self.api.call(method, path, as_=self.api.token(tenant, role), **options)
        assert answer.status_code in (200, 201), answer.text
        return answer

    def change(self, name: str, **said: Any) -> None:
        self.minute += 1
        fields = {Field[key.upper()]: value for key, value in said.items()}
        self.say(Event(next_id(), at(self.minute), name, fields))

    def in_force(self, *names: str) -> dict[str, list[str]]:
        return {name: self.ask("GET", f"{ASSETS}/{name}").json()["effective_tags"] for name in names}

    def preview(self, asset: str, *tags: str, tenant: str = "acme", **said: Any) -> dict[str, Any]:
        body = {"asset_id": asset, "tags": list(tags)} | said
        return dict(self.ask("POST", PREVIEW, tenant, json=body).json())


@pytest.fixture
def world(settings_without_log: Settings) -> Iterator[World]:
    graph = Graph(settings_without_log.database.url.get_secret_value())
    with gateway(settings_without_log) as api:
        yield World(api, graph)
    graph.close()


def edge(start: str, end: str, kind: str = "derived-from") -> Said:
    return Said(next_id(), at(0), "edge", True, "api", start, end, kind)


def asset(name: str, kind: str = "table", **said: Any) -> Event:
    fields = {Field[key.upper()]: value for key, value in said.items()}
    return Event(next_id(), at(0), name, {Field.ASSET_NAME: name, Field.ASSET_TYPE: kind} | fields)


def define(tag: str, **switches: bool) -> Said:
    return Said(next_id(), at(0), "definition", True, "user", tags=(tag,), body=dict(switches))


def test_what_a_preview_tells_is_what_then_happens(world: World) -> None:
    nodes = "abcdefghijkl"
    touched = 0
    for seed in range(20):
        tenant, dice = f"tenant-{seed}", random.Random(seed)
        piece: Piece = [said for part in history(seed, scale=2) for said in part]
        world.say(*piece, *(asset(name) for name in nodes), tenant=tenant)
        for _ in range(6):
            name, tag, holds = dice.choice(nodes), dice.choice(("PII", "wide")), dice.random() < 0.5
            if world.api.call(
                "GET", f"{ASSETS}/{name}", as_=world.api.token(tenant)
            ).is_error:  # purged at a later time than it was made
                continue
            expected = world.preview(name, tag, tenant=tenant, remove=not holds)
            before = len(world.told(tenant))
            world.tag(name, tag, holds, tenant)
            told = world.told(tenant)[before:]
            assert len(told) == expected["assets"] == expected["by_tag"][tag], (seed, name, tag, holds)
            touched += len(told)
    assert touched > 50, "hardly anything happened: this shows nothing"


def test_a_preview_counts_types_owners_policies_and_enforcement_points(world: World) -> None:
    world.say(
        asset("orders", asset_owner="ada"),
        asset("view", "view", asset_owner="bo"),
        asset("mail", "column", data_source="shop", metadata={"data_type": "text"}),
        asset("kept", "column", data_source="shop"),
        edge("orders", "view"),
        edge("view", "mail", "used-in"),
        edge("view", "kept", "contains"),
    )
    rule = {"tag": "PII", "effect": "deny"}
    world.ask("POST", RULES, json=rule)
    policy = {"role": "viewer", "access_type": "READ", "effect": "forbid", "scope": "tag", "value": "PII"}
    world.ask("POST", f"{ASSETS}/access-control", json=policy)
    expected = {
        "asset_id": "orders",
        "remove": False,
        "assets": 3,
        "by_tag": {"PII": 3},
        "by_type": {"table": 1, "view": 1, "column": 1},
        "by_owner": {"ada": 1, "bo": 1, "nobody": 1},
        "truncated": False,
        "policies": 1,
        "protection_rules": 1,
        "enforcement_points": 1,
    }
    assert world.preview("orders", "PII") == expected
    world.ask("POST", RULES, json=rule | {"includes_contained": True})
    assert world.preview("orders", "PII")["enforcement_points"] == 2
    world.tag("orders", "PII")
    assert world.preview("orders", "PII")["assets"] == 0
    removal = expected | {"remove": True, "protection_rules": 2, "enforcement_points": 2}
    assert world.preview("orders", "PII", remove=True) == removal


def test_a_preview_is_for_those_who_may_write_the_asset(world: World) -> None:
    world.say(asset("orders"), asset("view"), edge("orders", "view"))
    body = {"asset_id": "orders", "tags": ["PII"]}
    refused = world.api.call("POST", PREVIEW, as_=world.api.token(role="viewer"), json=body)
    assert refused.status_code == 403
    seen = world.ask("POST", PREVIEW, role="editor", json=body).json()
    assert (seen["assets"], seen["policies"]) == (2, None)


def test_an_asset_shows_what_is_in_force_on_it_alone_and_in_lists(world: World) -> None:
    world.say(
        define("@owner:*", lineage=True),
        define("@term:*", lineage=True),
        define("@retention:*", lineage=True),
        asset("a", asset_owner="ada", business_terms=["sales"], metadata={"retention_class": "7y"}),
        asset("b"),
        asset("c", asset_owner="cy", business_terms=["tax"]),
        edge("a", "b"),
        edge("b", "c"),
    )
    world.tag("a", "PII")
    documents = world.ask("GET", ASSETS).json()["assets"]
    names = ("tags", "effective_tags", "effective_owners", "effective_terms", "effective_retention")
    shown = {each["asset_id"]: tuple(each[name] for name in names) for each in documents}
    assert shown == {
        "a": ([], ["PII"], ["ada"], ["sales"], ["7y"]),
        "b": ([], ["PII"], ["ada"], ["sales"], ["7y"]),
        "c": ([], ["PII"], ["cy"], ["sales", "tax"], ["7y"]),
    }
    for document in documents:
        alone = world.ask("GET", f"{ASSETS}/{document['asset_id']}").json()
        assert {name: alone[name] for name in names} == {name: document[name] for name in names}
    classified = world.ask("GET", f"{ASSETS}/governance/classification/b").json()
    assert classified["effective_tags"] == ["PII"]
    assert [each["tag"] for each in classified["fields"]] == ["@owner:ada", "@retention:7y", "@term:sales"]
    assert {origin["asset_id"] for each in classified["fields"] for origin in each["origins"]} == {"a"}
    nodes = world.ask("GET", f"{ASSETS}/lineage/a").json()["nodes"]
    assert [node["tags"] for node in nodes] == [["PII"]] * 3


def test_the_entity_tag_follows_what_came_along_lineage(world: World) -> None:
    world.say(asset("a"), asset("b"), edge("a", "b"))
    tag = world.ask("GET", f"{ASSETS}/b").headers["etag"]
    assert tag == '"1"'
    world.tag("a", "PII")
    again = world.api.call("GET", f"{ASSETS}/b", headers={"if-none-match": tag})
    assert (again.status_code, again.json()["effective_tags"]) == (200, ["PII"])
    same = world.api.call("GET", f"{ASSETS}/b", headers={"if-none-match": again.headers["etag"]})
    assert same.status_code == 304


def test_impact_can_be_streamed_as_lines_with_the_counts_at_the_end(world: World) -> None:
    world.say(*(edge("a", f"leaf-{n}") for n in range(3000)), edge("leaf-7", "end"), asset("a"))
    world.tag("leaf-7", "PII")
    answer = world.ask("GET", f"{ASSETS}/lineage/a/impact", headers={"accept": "application/x-ndjson"})
    assert answer.headers["content-type"] == "application/x-ndjson"
    *nodes, counts = map(json.loads, answer.text.splitlines())
    assert (len(nodes), nodes[-1]["asset_id"], nodes[-1]["depth"]) == (3001, "end", 2)
    whole = world.ask("GET", f"{ASSETS}/lineage/a/impact").json()
    assert whole.pop("assets") == nodes
    assert counts == whole
    unknown = world.api.call("GET", f"{ASSETS}/lineage/x/impact", headers={"accept": "application/x-ndjson"})
    assert unknown.status_code == 404


def test_24_a_limit_of_the_operator_makes_an_answer_partial_and_it_says_so(
    settings_without_log: Settings,
) -> None:
    limited = settings_without_log.gateway.model_copy(update={"lineage_nodes": 10})
    graph = Graph(settings_without_log.database.url.get_secret_value())
    with gateway(settings_without_log.model_copy(update={"gateway": limited})) as api:
        world = World(api, graph)
        chain = [edge(f"n{n}", f"n{n + 1}") for n in range(30)]
        world.say(*chain, asset("n0"), asset("n30"))
        world.tag("n0", "PII")
        for path in ("lineage/n0?depth=50", "lineage/n0/impact"):
            answer = world.ask("GET", f"{ASSETS}/{path}").json()
            assert answer["truncated"] is True
        assert world.ask("GET", f"{ASSETS}/lineage/n0?depth=3").json()["truncated"] is True
        assert world.ask("GET", f"{ASSETS}/n30").json()["effective_tags"] == [
            "PII"
        ]  # propagation has no limit
    graph.close()


def test_33_who_may_not_see_the_origin_sees_the_tag_with_its_origin_redacted(world: World) -> None:
    world.say(asset("secret", "vault"), asset("shown"), edge("secret", "shown"))
    world.tag("secret", "PII")
    policy = {"role": "editor", "access_type": "READ", "effect": "forbid", "scope": "type", "value": "vault"}
    world.ask("POST", f"{ASSETS}/access-control", json=policy)
    path = f"{ASSETS}/governance/classification/shown"
    seen = world.ask("GET", f"{path}?explain=true", role="editor")
    assert seen.json()["effective_tags"] == ["PII"]
    assert seen.json()["tags"][0]["origins"][0]["asset_id"] == "(not yours to read)"
    why = world.ask("GET", f"{path}/why?tag=PII", role="editor")
    assert "secret" not in seen.text + why.text
    assert world.ask("GET", f"{ASSETS}/shown", role="editor").json()["effective_tags"] == ["PII"]
    assert "secret" in world.ask("GET", f"{path}/why?tag=PII").text


def chain(*names: str) -> list[Said | Event]:
    return [*(asset(name) for name in names), *(edge(start, end) for start, end in pairwise(names))]


def test_16_a_tenant_can_keep_what_came_from_a_deleted_origin(world: World) -> None:
    keep = Said(next_id(), at(1), "definition", True, "user", tags=("*",), body={"keep_when_deleted": True})
    world.say(*chain("a", "b", "c"), keep)
    world.tag("a", "PII")
    world.change("a", is_deleted=True)
    assert world.in_force("b", "c") == {"b": ["PII"], "c": ["PII"]}
    shown = world.ask("GET", f"{ASSETS}/governance/classification/c").json()["tags"][0]["origins"]
    assert shown == [{"asset_id": "a", "distance": 2, "is_deleted": True}]
    world.say(replace(keep, event_id=next_id(), event_time=at(2), holds=False))
    assert world.in_force("b", "c") == {"b": [], "c": []}
    world.say(replace(keep, event_id=next_id(), event_time=at(3)))
    assert world.in_force("b", "c") == {"b": ["PII"], "c": ["PII"]}
    world.say(purge(next_id(), at(2000), "a"))  # which forgets what there was to keep
    assert world.in_force("b", "c") == {"b": [], "c": []}


def test_the_origins_of_a_tag_that_are_shown_are_reads_of_tagged_assets(world: World) -> None:
    world.say(*chain("a", "b", "c"))
    world.tag("a", "PII")
    path = f"{ASSETS}/governance/classification/c"
    query = (
        "SELECT resource_id FROM audit WHERE tenant_id = 'acme' AND action = 'read' AND reason = 'origins'"
    )
    for explain, noted in ((False, {"a"}), (True, {"a", "b"})):
        world.ask("GET", path, role="viewer", params={"explain": explain})
        eventually(lambda noted=noted: {row[0] for row in world.api.fetch(query)} - {"c"} == noted)


def test_23_a_column_renamed_or_retyped_keeps_its_tags(world: World) -> None:
    world.say(*chain("a", "col"))
    world.tag("a", "PII")
    world.tag("col", "own")
    before = world.told()
    world.change("col", asset_name="e_mail", metadata={"data_type": "varchar(64)"})
    assert world.in_force("col") == {"col": ["PII", "own"]}
    assert world.told() == before


def test_25_deep_and_wide_arrives_whole(world: World) -> None:
    levels = [[f"n{level}-{n}" for n in range(300)] for level in range(10)]
    edges = [edge(a, b) for up, down in pairwise(levels) for a, b in zip(up, down, strict=True)]
    world.say(asset("root"), *(edge("root", name) for name in levels[0]), *edges)
    world.tag("root", "PII")
    impact = world.ask("GET", f"{ASSETS}/lineage/root/impact").json()
    assert (impact["total"], impact["by_tag"], impact["truncated"]) == (3000, {"PII": 3000}, False)


def test_34_tag_and_untag_inside_one_batch_are_both_told_or_neither(world: World) -> None:
    world.say(*chain("a", "b"))
    tag = Said(next_id(), at(5), "tag", True, "user", "a", tags=("PII",))
    untag = Said(next_id(), at(6), "tag", False, "*", "a", tags=("PII",))
    world.say(tag, untag)
    assert (world.told(), world.in_force("a", "b")) == ([], {"a": [], "b": []})
    world.graph.apply({"acme": [replace(tag, event_id=next_id(), event_time=at(7))]}, propagate=False)
    world.say(replace(untag, event_id=next_id(), event_time=at(8)))
    assert (world.told(), world.in_force("a", "b")) == ([], {"a": [], "b": []})


def test_39_of_two_masks_the_strictest_wins_every_time(world: World) -> None:
    column = asset("col", "column", metadata={"data_type": "text"})
    world.say(asset("a"), asset("b"), column, edge("a", "col"), edge("b", "col"))
    for tag, mask in (("PII", {"kind": "partial", "first": 1}), ("GDPR", {"kind": "null"})):
        world.ask("POST", RULES, json={"tag": tag, "mask": mask})
    for first, second in (("PII", "GDPR"), ("GDPR", "PII")):
        world.tag("a", first)
        world.tag("b", second)
        [shown] = world.ask("GET", "/lily/v1/protection/columns/col").json()["columns"]
        assert [each["mask"]["kind"] for each in shown["protections"]] == ["null", "partial"]
        world.tag("a", first, holds=False)
        world.tag("b", second, holds=False)


def test_40_what_an_asset_says_itself_wins_and_else_it_inherits(world: World) -> None:
    world.say(
        *(define(kind, lineage=True) for kind in ("@owner:*", "@retention:*")),
        asset("a", asset_owner="ada", metadata={"retention_class": "7y"}),
        asset("b", data_source="warehouse", asset_owner="bo", metadata={"retention_class": "1y"}),
        asset("c"),
        edge("a", "b"),
        edge("a", "c"),
    )

    def shown(name: str) -> tuple[list[str], list[str]]:
        document = world.ask("GET", f"{ASSETS}/{name}").json()
        return document["effective_owners"], document["effective_retention"]

    assert (shown("b"), shown("c")) == ((["bo"], ["1y"]), (["ada"], ["7y"]))
    world.change("a", asset_owner="eve", metadata={})
    assert (shown("b"), shown("c")) == ((["bo"], ["1y"]), (["eve"], []))
    world.change("b", asset_owner=None)
    assert shown("b") == (["eve"], ["1y"])
