"""Incidents over REST: signed webhooks in, attached, shown where they matter, acted on; hidden ones not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from incident_kit import ASYNC, INCIDENTS, SECRET, Site, Tail
from rest_kit import Gateway, gateway, problem

from kit import monte_carlo
from kit.events import at, next_id
from kit.eventually import eventually
from kit.lineage_model import Said
from kit.lineage_runs import Graph
from kit.model import Event
from lily.domain.assets import Field
from lily.ingest.webhooks import refusals
from lily.log.topics import Topic
from lily.settings import Settings

GRAFANA = (Path(__file__).parents[1] / "payloads" / "grafana_alerts.json").read_bytes()


@pytest.fixture(scope="module")
def parts(shared_settings: Settings) -> Iterator[tuple[Gateway, Graph, Tail]]:
    graph = Graph(shared_settings.database.url.get_secret_value())
    log = Tail(shared_settings.kafka)
    with gateway(shared_settings) as running:
        yield running, graph, log
    graph.close()
    log.close()


@pytest.fixture
def site(parts: tuple[Gateway, Graph, Tail]) -> Site:
    return Site(*parts)


def table(asset_id: str, **said: Any) -> Event:
    fields = {"asset_name": asset_id, "asset_type": "table"} | said
    return Event(next_id(), at(0), asset_id, {Field[name.upper()]: value for name, value in fields.items()})


def edge(start: str, end: str, holds: bool = True) -> Said:
    return Said(next_id(), at(1), "edge", holds, "api", start, end, "derived-from")


def test_the_documented_example_becomes_an_incident_with_its_measurements(site: Site) -> None:
    site.connect(account_id=monte_carlo.ACCOUNT, secret=site.tenant)
    headers = monte_carlo.signed(site.tenant, monte_carlo.RULE_BREACH)
    answer = site.api.client.post("/webhook/monte-carlo", content=monte_carlo.RULE_BREACH, headers=headers)
    assert (answer.status_code, answer.json()["status"]) == (200, "received")
    site.flow()
    [incident_id] = answer.json()["incidents"]
    shown = site.incident(incident_id)
    assert (shown["title"], shown["status"], shown["asset_id"]) == ("test rule", "open", None)
    assert (shown["source"], shown["severity"]) == ("monte-carlo", None)
    assert shown["external_id"] == "f83867b6-8f25-428b-807c-08518f63384c"
    assert shown["measurements"][0]["value"] == "50.0"
    assert shown["rule"]["type"] == "custom_sql"
    [step] = shown["timeline"]
    assert (step["step"], step["actor"]) == ("opened", "connector/mc")


@pytest.mark.parametrize("path", ["/webhook/monte-carlo", "/lily/v1/webhooks/monte-carlo/{}"])
def test_a_wrong_or_missing_signature_is_forbidden_and_audited(path: str, site: Site) -> None:
    connector = site.connect(secret=site.tenant)
    body = monte_carlo.created("a", "orders")
    before = len(site.api.logged(Topic.METADATA_EVENTS))
    for headers in (
        {"content-type": "application/json"},
        monte_carlo.signed("another secret", body),
        monte_carlo.signed(site.tenant, monte_carlo.created("b", "orders")),
    ):
        answer = site.api.client.post(path.format(connector), content=body, headers=headers)
        problem(answer, 403, "forbidden")
    assert len(site.api.logged(Topic.METADATA_EVENTS)) == before
    noted = "SELECT count(*) FROM audit WHERE NOT allowed AND resource_kind = 'route' AND resource_id = %s"
    eventually(lambda: site.api.fetch(noted, path.format(connector))[0][0] >= 3)


def test_another_connectors_secret_and_an_unknown_connector_are_refused_alike(site: Site) -> None:
    mine, other = site.connect(), site.connect(name="other", secret="another secret")
    body = monte_carlo.created("a", "orders")
    refusals = {
        site.deliver(connector, body, secret).json()["detail"]
        for connector, secret in ((mine, "another secret"), (other, SECRET), (site.tenant, SECRET))
    }
    assert len(refusals) == 1
    place = f"/lily/v1/connectors/{site.tenant}/{mine}"
    assert site.deliver(mine, body).status_code == 200
    assert site.call("PATCH", place, json={"is_disabled": True}).status_code == 200
    assert site.deliver(mine, body).status_code == 403
    assert site.call("PATCH", place, json={"is_disabled": False, "secret": "rotated"}).status_code == 200
    assert site.deliver(mine, body).status_code == 403
    assert site.deliver(mine, body, "rotated").status_code == 200
    assert site.call("DELETE", place).status_code == 204
    assert site.deliver(mine, body, "rotated").status_code == 403


def test_a_secret_two_tenants_share_opens_neither_at_the_common_address(site: Site) -> None:
    other = Site(site.api, site.graph, site.log)
    body = monte_carlo.created("a", "orders")
    for each in (site, other):
        each.connect(secret=site.tenant)
    answer = site.api.client.post(
        "/webhook/monte-carlo", content=body, headers=monte_carlo.signed(site.tenant, body)
    )
    problem(answer, 403, "forbidden")


def test_the_whole_life_of_an_alert_in_any_order_and_twice_ends_the_same(site: Site) -> None:
    connector = site.connect()
    events = ["owner_changed", "external_ticket_attached", "marked_incident", "resolved"]
    bodies = {
        alert: [monte_carlo.created(alert, "orders"), *(monte_carlo.update(alert, event) for event in events)]
        for alert in ("forwards", "backwards")
    }
    first = site.report(connector, *bodies["forwards"], *bodies["forwards"])
    second = site.report(connector, bodies["backwards"][-1], *bodies["backwards"][:-1])
    for each in (first, second):
        shown = site.incident(each)
        assert (shown["owner"], shown["severity"], shown["ticket"]) == ("ada@example.com", "SEV-1", "DATA-7")
        assert shown["title"] == "Has 42 rows vs. 101 expected on orders"
    assert site.incident(first)["status"] == "resolved"
    assert len(site.incident(first)["timeline"]) == 5, "a repeated delivery counts once"
    unmarked = site.report(connector, monte_carlo.update("forwards", "unmarked_incident"))
    assert site.incident(unmarked)["severity"] is None


def test_a_replayed_delivery_does_not_undo_what_happened_since(site: Site) -> None:
    connector = site.connect()
    resolved = monte_carlo.update("a", "resolved")
    incident = site.report(connector, monte_carlo.created("a", "orders"), resolved)
    site.report(connector, monte_carlo.update("a", "status_updated", alert_feedback="no_status"))
    for replayed in (resolved, resolved.replace(b": ", b":   "), resolved.replace(b"{", b"\n{ ")):
        assert site.report(connector, replayed) == incident, "what is not signed makes no other delivery"
    assert site.incident(incident)["status"] == "open"


def test_who_guesses_secrets_is_not_listened_to_for_a_while_and_others_are(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "MOST_REFUSED", 3)
    mine, other = site.connect(), site.connect(name="other")
    body = monte_carlo.created("a", "orders")
    assert [site.deliver(mine, body, "guess").status_code for _ in range(3)] == [403] * 3
    answer = site.deliver(mine, body)
    problem(answer, 429, "too_many_requests")
    assert 0 < int(answer.headers["retry-after"]) <= 60
    assert site.deliver(other, body).status_code == 200


def test_a_delivery_is_not_read_beyond_what_it_may_have(site: Site) -> None:
    connector = site.connect()

    def chunks() -> Iterator[bytes]:
        for _ in range(9):
            yield b" " * 65_536

    path = f"/lily/v1/webhooks/monte-carlo/{connector}"
    headers = {"content-type": "application/json"}
    answer = site.api.client.post(path, content=chunks(), headers=headers)
    problem(answer, 413, "content_too_large")
    assert "524,288" in answer.json()["detail"]


def test_a_large_delivery_of_a_source_with_many_connectors_is_taken(site: Site) -> None:
    connector = site.connect()
    for number in range(3):
        site.connect(name=f"other{number}", secret=f"another {number}")
    body = monte_carlo.created("a", "orders")
    large = body[:-1] + b', "more": "' + b"x" * 100_000 + b'"}'
    assert site.deliver(connector, large).status_code == 200


@pytest.mark.parametrize(
    "policy",
    [
        {"user_id": "connector/mc", "scope": "all"},
        {"role": "connector", "scope": "all"},
        {"user_id": "connector/mc", "asset_id": "orders"},
        {"user_id": "connector/mc", "scope": "source", "value": "warehouse"},
    ],
)
def test_a_connector_reports_only_what_no_policy_forbids(site: Site, policy: dict[str, str]) -> None:
    config = {"assets": {"db:shop.orders": "orders"}, "data_source": "warehouse"}
    connector = site.connect(**config)
    body = monte_carlo.created("a", "orders")
    assert site.deliver(connector, body).status_code == 200
    forbidding = {"access_type": "WRITE", "effect": "forbid"} | policy
    assert site.call("POST", "/lily/v1/access/policies", json=forbidding).status_code == 201
    problem(site.deliver(connector, body), 403, "forbidden")
    noted = "SELECT count(*) FROM audit WHERE NOT allowed AND tenant_id = %s AND actor = 'connector/mc'"
    eventually(lambda: site.api.fetch(noted, site.tenant)[0][0] >= 1)


def test_an_incident_is_on_its_asset_and_upstream_of_everything_below_until_it_is_resolved(
    site: Site,
) -> None:
    connector = site.connect(assets={"db:shop.orders": "orders"})
    site.apply(
        table("orders"), table("daily"), table("board"), edge("orders", "daily"), edge("daily", "board")
    )
    incident = site.report(connector, monte_carlo.created("a", "orders"))
    assert [each["incident_id"] for each in site.asset("orders")["incidents"]] == [incident]
    assert site.asset("orders")["affected_upstream"] == []
    for below in ("daily", "board"):
        shown = site.asset(below)
        assert shown["incidents"] == []
        assert [(each["incident_id"], each["asset_id"]) for each in shown["affected_upstream"]] == [
            (incident, "orders")
        ]
    impact = site.call("GET", "/lily/v1/metadata/lineage/orders/impact").json()
    assert [each["incident_id"] for each in impact["incidents"]] == [incident]
    site.apply(edge("daily", "board", holds=False))
    assert site.asset("board")["affected_upstream"] == [], "no edge leads there any more"
    site.report(connector, monte_carlo.update("a", "resolved"))
    assert site.asset("orders")["incidents"] == site.asset("daily")["affected_upstream"] == []


def test_the_entity_tag_changes_with_the_incidents_and_still_guards_a_write(site: Site) -> None:
    connector = site.connect()
    site.apply(table("orders"))
    path = "/lily/v1/metadata/orders"
    before = site.call("GET", path).headers["etag"]
    site.report(connector, monte_carlo.created("a", "orders"))
    answer = site.call("GET", path, headers={"if-none-match": before})
    assert (answer.status_code, answer.headers["etag"] == before) == (200, False)
    assert site.call("GET", path, headers={"if-none-match": answer.headers["etag"]}).status_code == 304
    write = site.call(
        "PATCH", path, json={"description": "x"}, headers=ASYNC | {"if-match": answer.headers["etag"]}
    )
    assert write.status_code == 202


def test_an_incident_is_held_until_its_asset_is_known(site: Site) -> None:
    incident = site.report(site.connect(data_source="warehouse"), monte_carlo.created("a", "orders"))
    assert site.incident(incident)["asset_id"] is None
    listed = site.call("GET", INCIDENTS, params={"attached": "false"}).json()["incidents"]
    assert [each["incident_id"] for each in listed] == [incident]
    site.apply(table("o-1", external_id="DB.shop.Orders", data_source="warehouse"))
    assert site.incident(incident)["asset_id"] == "o-1"
    assert [each["incident_id"] for each in site.asset("o-1")["incidents"]] == [incident]


def act(site: Site, incident: str, name: str, body: Any = None, role: str = "editor") -> dict[str, Any]:
    answer = site.call("POST", f"{INCIDENTS}/{incident}/{name}", role, json=body or {}, headers=ASYNC)
    assert answer.status_code == 202, answer.text
    site.flow()
    return site.incident(incident)


def test_people_acknowledge_assign_comment_resolve_and_reopen(site: Site) -> None:
    site.apply(table("orders"))
    incident = site.report(site.connect(), monte_carlo.created("a", "orders"))
    assert act(site, incident, "acknowledge", {"comment": "on it"})["status"] == "acknowledged"
    assert act(site, incident, "assign", {"owner": "bob"})["owner"] == "bob"
    resolved = act(site, incident, "resolve", {"feedback": "fixed"})
    assert (resolved["status"], resolved["feedback"]) == ("resolved", "fixed")
    assert act(site, incident, "reopen")["status"] == "open"
    assert act(site, incident, "assign", {"owner": None})["owner"] is None
    timeline = act(site, incident, "comment", {"comment": "<b>why</b>'; DROP TABLE incidents"})["timeline"]
    words = ["opened", "acknowledged", "assigned", "resolved", "reopened", "assigned", "commented"]
    assert [step["step"] for step in timeline] == words
    assert timeline[1]["comment"] == "on it"
    assert timeline[-1]["comment"] == "<b>why</b>'; DROP TABLE incidents"
    told = "SELECT outcome FROM incident_changes WHERE tenant_id = %s ORDER BY seq"
    assert [row[0] for row in site.api.fetch(told, site.tenant)] == words


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("comment", {}),
        ("comment", {"comment": ""}),
        ("assign", {}),
        ("resolve", {"feedback": "Not A Word"}),
        ("reopen", {"x": 1}),
    ],
)
def test_an_act_without_what_it_needs_is_refused(name: str, body: Any, site: Site) -> None:
    site.apply(table("orders"))
    incident = site.report(site.connect(), monte_carlo.created("a", "orders"))
    problem(site.call("POST", f"{INCIDENTS}/{incident}/{name}", json=body), 422, "invalid_input")


def test_who_may_only_read_the_asset_reads_the_incident_and_does_nothing_about_it(site: Site) -> None:
    site.apply(table("orders"))
    incident = site.report(site.connect(), monte_carlo.created("a", "orders"))
    assert site.incident(incident, "viewer")["asset_id"] == "orders"
    problem(site.call("POST", f"{INCIDENTS}/{incident}/resolve", "viewer", json={}), 403, "forbidden")
    other = Site(site.api, site.graph, site.log)
    problem(other.call("GET", f"{INCIDENTS}/{incident}"), 404, "not_found")
    problem(other.call("POST", f"{INCIDENTS}/{incident}/resolve", json={}), 404, "not_found")
    assert other.call("GET", INCIDENTS).json()["incidents"] == []


def test_incidents_of_hidden_assets_stay_hidden_everywhere(site: Site) -> None:
    site.apply(
        table("secret", user_tags=["hush"]),
        table("orders"),
        table("board"),
        edge("secret", "board"),
        edge("orders", "board"),
    )
    connector = site.connect(assets={"hidden": "secret"})
    hidden = site.report(connector, monte_carlo.created("h", "hidden"))
    shown = site.report(connector, monte_carlo.created("s", "orders"))
    held = site.report(connector, monte_carlo.created("u", "unknown_table"))
    forbid = {"role": "editor", "access_type": "READ", "effect": "forbid", "scope": "tag", "value": "hush"}
    answer = site.call("POST", "/lily/v1/metadata/access-control", json=forbid)
    assert answer.status_code == 201, answer.text
    assert [i["incident_id"] for i in site.call("GET", INCIDENTS, "editor").json()["incidents"]] == [shown]
    assert len(site.call("GET", INCIDENTS, "owner").json()["incidents"]) == 3
    for each in (hidden, held):
        problem(site.call("GET", f"{INCIDENTS}/{each}", "editor"), 404, "not_found")
        problem(site.call("POST", f"{INCIDENTS}/{each}/resolve", "editor", json={}), 404, "not_found")
    assert [i["incident_id"] for i in site.asset("board", "editor")["affected_upstream"]] == [shown]
    assert {i["incident_id"] for i in site.asset("board")["affected_upstream"]} == {hidden, shown}
    impact = site.call("GET", "/lily/v1/metadata/lineage/orders/impact", "editor").json()
    assert [each["incident_id"] for each in impact["incidents"]] == [shown]


def test_the_list_is_filtered_and_comes_in_pages(site: Site) -> None:
    connector = site.connect()
    site.apply(table("orders"))
    made = [site.report(connector, monte_carlo.created(str(number), "orders")) for number in range(5)]
    site.report(connector, monte_carlo.update("0", "resolved"), monte_carlo.update("1", "marked_incident"))

    def listed(**asked: Any) -> list[str]:
        found, token = [], ""
        while True:
            page = site.call("GET", INCIDENTS, params=asked | {"page_size": 2, "page_token": token}).json()
            found += [each["incident_id"] for each in page["incidents"]]
            if not (token := page["next_page_token"]):
                return found

    assert listed() == made[::-1]
    assert listed(status="unresolved") == made[:0:-1]
    assert (listed(status="resolved"), listed(severity="SEV-1")) == ([made[0]], [made[1]])
    assert (listed(asset_id="orders"), listed(asset_id="other"), listed(owner="x")) == (made[::-1], [], [])
    token = site.call("GET", INCIDENTS, params={"page_size": 2}).json()["next_page_token"]
    problem(site.call("GET", INCIDENTS, params={"page_token": token, "owner": "x"}), 400, "malformed_request")


def test_grafanas_alerts_become_incidents_without_code(site: Site) -> None:
    connector = site.connect("webhook-in", "grafana", mapping="grafana")
    site.apply(table("o-1", external_id="shop.orders"))
    path, headers = f"/lily/v1/webhooks/webhook-in/{connector}", {"content-type": "application/json"}
    problem(site.api.client.post(path, content=GRAFANA, headers=headers), 403, "forbidden")
    answer = site.api.client.post(
        path, content=GRAFANA, headers=headers | {"authorization": f"Bearer {SECRET}"}
    )
    assert answer.status_code == 200, answer.text
    site.flow()
    firing, resolved = (site.incident(each) for each in answer.json()["incidents"])
    assert (firing["asset_id"], firing["status"], firing["severity"]) == ("o-1", "open", "SEV-1")
    assert resolved["status"] == "resolved"
    again = json.loads(GRAFANA)
    again["alerts"][0] |= {"status": "resolved", "endsAt": "2026-01-12T11:00:00+02:00"}
    del again["alerts"][1]
    content = json.dumps(again).encode()
    site.api.client.post(path, content=content, headers=headers | {"authorization": f"Bearer {SECRET}"})
    site.flow()
    assert site.incident(firing["incident_id"])["status"] == "resolved"


def test_what_no_source_could_have_sent_is_refused_without_an_error_of_ours(site: Site) -> None:
    connector = site.connect()
    for body, status in (
        (b"[]", 400),
        (b"{", 400),
        (b"[" * 10_000, 400),
        (b'{"a": "' + b"x" * 600_000 + b'"}', 413),
        (json.dumps({"payload": {}}).encode(), 422),
    ):
        signature = monte_carlo.signed(SECRET, body)["x-mcd-signature"] if status == 422 else "0"
        headers = {"content-type": "application/json", "x-mcd-signature": signature}
        path = f"/lily/v1/webhooks/monte-carlo/{connector}"
        assert site.api.client.post(path, content=body, headers=headers).status_code == status
    assert site.api.client.post("/lily/v1/webhooks/carrier-pigeon/x", json={}).status_code == 403
