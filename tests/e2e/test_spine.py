"""The spine, whole: an event goes in by REST and comes out of every other end."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Message, Producer

from kit import monte_carlo
from kit.eventually import eventually
from kit.platform import ASSETS, Platform, Tenant, table
from lily.domain.assets import derive_asset_id
from lily.domain.event_ids import members
from lily.log.producer import client_config
from lily.log.topics import Topic


@pytest.fixture
def tenant(platform: Platform) -> Tenant:
    return Tenant(platform)


def headers_of(message: Message) -> dict[str, str]:
    return {name: value.decode() for name, value in message.headers() or []}


def test_an_asset_posted_is_created_and_readable_when_the_call_returns(tenant: Tenant) -> None:
    created = tenant.post(tags=["pii"], metadata={"rows": 1})
    assert created.status_code == 201
    assert created.headers["etag"] == '"1"'
    assert created.headers["location"] == f"{ASSETS}/orders"
    assert UUID(created.headers["lily-event-id"])
    read = tenant.get()
    assert (read.status_code, read.headers["etag"]) == (200, '"1"')
    assert read.json() == created.json() | {"incidents": [], "affected_upstream": []}
    assert (read.json()["tags"], read.json()["metadata"]) == (["pii"], {"rows": 1})


def test_an_asset_without_an_id_gets_the_same_one_every_time(tenant: Tenant) -> None:
    asset = {"asset_name": "o", "asset_type": "table", "data_source": "shop", "external_id": "shop.o"}
    answers = [tenant.post(asset) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    assert {answer.json()["asset_id"] for answer in answers} == {derive_asset_id("shop", "shop.o")}


def test_a_change_makes_the_next_version(tenant: Tenant) -> None:
    tenant.post()
    changed = tenant.post(asset_name="Orders 2")
    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
    assert tenant.get().json()["asset_name"] == "Orders 2"


def test_saying_the_same_again_makes_no_version(tenant: Tenant) -> None:
    tenant.post(tags=["pii"])
    again = tenant.post(tags=["pii"])
    assert (again.status_code, again.headers["etag"]) == (200, '"1"')
    assert len(tenant.get(query="?history=true").json()["history"]) == 1


def test_a_write_that_does_not_wait_can_be_read_after_its_event(tenant: Tenant) -> None:
    accepted = tenant.post(headers={"prefer": "respond-async"})
    assert accepted.status_code == 202
    assert accepted.headers["preference-applied"] == "respond-async"
    read = tenant.get(lily_after=accepted.headers["lily-event-id"])
    assert (read.status_code, read.json()["asset_name"]) == (200, "Orders")


def test_a_batch_takes_what_is_valid_on_both_lanes_and_says_what_is_not(tenant: Tenant) -> None:
    assets = [table("a"), {"asset_id": "b"}, table("c", asset_type="column"), table("d", colour="red")]
    answer = tenant.post({"assets": assets})
    assert answer.status_code == 200
    assert answer.json()["accepted"] == 2
    assert [rejected["index"] for rejected in answer.json()["rejected"]] == [1, 3]
    assert {change["asset_id"]: change["lane"] for change in tenant.changes()} == {
        "a": "structural",
        "c": "leaf",
    }
    ids = {str(member) for member in members(UUID(answer.headers["lily-event-id"]))}
    assert {str(change["event_id"]) for change in tenant.changes()} == ids


def test_the_id_of_a_batch_that_does_not_wait_stands_for_all_of_it(tenant: Tenant) -> None:
    assets = [table(f"t{n}") for n in range(300)] + [table(f"c{n}", asset_type="column") for n in range(300)]
    answer = tenant.post({"assets": assets}, headers={"prefer": "respond-async"})
    assert answer.status_code == 202
    assert tenant.get("c299", lily_after=answer.headers["lily-event-id"]).status_code == 200
    assert len(tenant.changes()) == 600


def test_an_asset_can_be_read_as_it_was(tenant: Tenant) -> None:
    tenant.post(event_time="2026-01-01T00:00:00Z", asset_name="first")
    tenant.post(event_time="2026-01-03T00:00:00Z", asset_name="third")
    assert tenant.get(query="?as_of=2026-01-02T00:00:00Z").json()["asset_name"] == "first"
    assert tenant.get(query="?as_of=2026-01-03T00:00:00Z").json()["asset_name"] == "third"
    assert tenant.get(query="?as_of=2025-12-31T00:00:00Z").status_code == 404


def test_an_older_event_that_comes_later_does_not_overwrite(tenant: Tenant) -> None:
    tenant.post(event_time="2026-01-03T00:00:00Z", asset_name="third")
    late = tenant.post(event_time="2026-01-02T00:00:00Z", asset_name="second", asset_owner="ada")
    assert (late.json()["asset_name"], late.json()["asset_owner"]) == ("third", "ada")


def test_history_is_read_in_pages_newest_first(tenant: Tenant) -> None:
    for name in ("one", "two", "three"):
        tenant.post(asset_name=name)
    names, token = [], ""
    for _ in range(3):
        page = tenant.get(query=f"?history=true&page_size=1&page_token={token}").json()
        names += [entry["asset"]["asset_name"] for entry in page["history"]]
        token = page["next_page_token"]
    assert (names, token) == (["three", "two", "one"], "")


def test_a_deleted_asset_is_shown_as_deleted_and_can_be_restored(tenant: Tenant) -> None:
    tenant.post()
    assert tenant.call("DELETE", "/orders").json()["is_deleted"] is True
    assert tenant.get().json()["is_deleted"] is True
    assert tenant.post(is_deleted=False).json()["is_deleted"] is False
    outcomes = [entry["outcome"] for entry in tenant.get(query="?history=true").json()["history"]]
    assert outcomes == ["restored", "deleted", "created"]


def test_a_purged_asset_is_gone_with_its_history(tenant: Tenant) -> None:
    tenant.post(description="secret")
    assert tenant.call("DELETE", "/orders?purge=true").status_code == 204
    assert tenant.get().status_code == 404
    assert tenant.get(query="?history=true").status_code == 404
    assert {change["description"] for change in tenant.changes()} == {None}


def test_a_source_s_tags_are_shown_over_a_user_s_and_both_are_kept(tenant: Tenant) -> None:
    tenant.post(tags=["mine"])
    shown = tenant.post(tags=["pii"], tag_origin="source").json()
    assert shown["tags"] == ["pii"]
    assert shown["tag_assertions"] == {"source": ["pii"], "user": ["mine"]}


def test_a_request_repeated_with_its_key_has_one_effect(tenant: Tenant) -> None:
    key = {"idempotency-key": f'"{uuid4()}"'}
    first, again = (tenant.post(headers=key) for _ in range(2))
    assert again.headers["idempotent-replayed"] == "true"
    assert first.headers["lily-event-id"] == again.headers["lily-event-id"]
    assert first.json() == again.json()
    assert len(tenant.changes()) == 1


def test_of_those_who_change_the_same_version_at_once_one_wins(tenant: Tenant) -> None:
    tenant.post()

    def change(owner: int) -> int:
        headers = {"if-match": '"1"'}
        return tenant.call(
            "PATCH", "/orders", json={"asset_owner": f"owner {owner}"}, headers=headers
        ).status_code

    with ThreadPoolExecutor(8) as threads:
        answers = sorted(threads.map(change, range(8)))
    assert answers == [200] + [412] * 7
    assert tenant.get().headers["etag"] == '"2"'


def test_another_tenant_sees_nothing(tenant: Tenant, platform: Platform) -> None:
    tenant.post()
    other = Tenant(platform)
    assert other.get().status_code == 404
    assert other.get(query="?history=true").status_code == 404
    assert other.post(asset_name="theirs").status_code == 201
    assert tenant.get().json()["asset_name"] == "Orders"


def test_a_viewer_reads_and_does_not_write(tenant: Tenant) -> None:
    tenant.post()
    assert tenant.call("GET", "/orders", role="viewer").status_code == 200
    assert tenant.call("POST", json=table(), role="viewer").status_code == 403


def test_a_poisonous_record_becomes_a_dead_letter_and_the_next_event_is_applied(tenant: Tenant) -> None:
    kafka, place = tenant.platform.settings.kafka, {}
    topic = Topic.STRUCTURAL_ASSETS.under(kafka.topic_prefix)
    headers = [
        ("ce_type", b"io.lily.asset.asserted.v1"),
        ("ce_id", b"x-1"),
        ("ce_tenantid", tenant.name.encode()),
    ]
    producer = Producer(client_config(kafka))
    producer.produce(
        topic,
        b"{oops",
        b"k",
        headers=headers,
        on_delivery=lambda _, message: place.update(at=(message.partition(), message.offset())),
    )
    assert producer.flush(10) == 0
    letter = eventually(
        lambda: tenant.platform.fetch("SELECT * FROM dead_letters WHERE tenant_id = %s", tenant.name)
    )[0]
    assert (letter["topic"], (letter["partition"], letter["offset"])) == (topic, place["at"])
    assert (letter["reason"], bytes(letter["payload"])) == ("malformed", b"{oops")
    told = tenant.platform.find_record(
        Topic.DEAD_LETTERS, lambda m: json.loads(m.value())["tenant_id"] == tenant.name
    )
    document = json.loads(told.value())
    assert (document["reason"], (document["partition"], document["offset"])) == ("malformed", place["at"])
    assert tenant.post().status_code == 201


def test_a_change_is_told_as_a_cloud_event_that_carries_the_trace(tenant: Tenant) -> None:
    trace_id = uuid4().hex
    posted = tenant.post(headers={"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"})
    event_id = posted.headers["lily-event-id"]
    told = tenant.platform.find_record(Topic.METADATA_CHANGES, lambda m: headers_of(m)["ce_id"] == event_id)
    headers, change = headers_of(told), json.loads(told.value())
    assert (headers["ce_specversion"], headers["ce_type"]) == ("1.0", "io.lily.asset.changed.v1")
    assert (headers["ce_subject"], headers["ce_tenantid"]) == ("orders", tenant.name)
    assert headers["traceparent"].split("-")[1] == trace_id
    assert told.key() == f"{tenant.name}/orders".encode()
    assert (change["outcome"], change["version"], change["asset"]["asset_name"]) == ("created", 1, "Orders")


def test_nothing_is_told_of_an_event_that_changed_nothing(tenant: Tenant) -> None:
    tenant.post()
    same, other = tenant.post(), tenant.post(asset_name="other")
    seen: list[str] = []

    def is_last(message: Message) -> bool:
        seen.append(headers_of(message)["ce_id"])
        return seen[-1] == other.headers["lily-event-id"]

    tenant.platform.find_record(Topic.METADATA_CHANGES, is_last)
    assert same.headers["lily-event-id"] not in seen


def lake(platform: Platform) -> Any:
    """The lake as any Iceberg client opens it, without Spark."""
    from pyiceberg.catalog.sql import SqlCatalog

    url = urlsplit(platform.settings.database.url.get_secret_value())
    uri = urlunsplit(url._replace(scheme="postgresql+psycopg"))
    return SqlCatalog("lake", uri=uri, warehouse=platform.settings.lake.warehouse)


def test_the_lake_keeps_every_event_as_received_and_every_version(tenant: Tenant) -> None:
    posted = [tenant.post(asset_name=name).headers["lily-event-id"] for name in ("one", "two")]
    catalog = lake(tenant.platform)

    def rows(name: str) -> list[dict[str, Any]]:
        found = catalog.load_table(f"lily.{name}").scan(row_filter=f"tenant_id == '{tenant.name}'").to_arrow()
        return sorted(found.to_pylist(), key=lambda row: row["event_id"])

    try:
        events = eventually(lambda: found if len(found := rows("events")) == 2 else None, within=60)
        history = eventually(lambda: found if len(found := rows("history")) == 2 else None, within=60)
    finally:
        catalog.engine.dispose()
    assert {row["event_id"] for row in events} == {row["event_id"] for row in history} == set(posted)
    assert {json.loads(row["value"])["asset_name"] for row in events} == {"one", "two"}
    assert {(row["version"], json.loads(row["asset"])["asset_name"]) for row in history} == {
        (1, "one"),
        (2, "two"),
    }


@pytest.mark.parametrize(
    "series",
    [
        'lily_events_accepted_total{lane="structural"}',
        'lily_events_applied_total{lane="structural"}',
        'lily_lane_lag_events{lane="leaf"}',
        'lily_lane_lag_events{lane="structural"}',
        'lily_batch_phase_seconds_count{lane="structural",phase="merge"}',
        'lily_event_visible_seconds_bucket{lane="structural",le="1.0"}',
        'lily_changes_published_total{lane="structural"}',
        'lily_events_dead_total{lane="structural"}',
        'lily_http_requests_total{method="POST",route="/lily/v1/metadata",status="201"}',
    ],
)
def test_metrics_have_the_series(tenant: Tenant, series: str) -> None:
    tenant.post()
    metrics = tenant.platform.client.get("/metrics").text
    assert any(line.startswith(series) for line in metrics.splitlines()), metrics[:4000]


def test_health_shows_every_component_and_the_lag_of_every_lane(platform: Platform) -> None:
    health = platform.health()
    assert health["status"] == "healthy"
    assert {"gateway", "kafka", "postgres", "streams"} <= set(health["components"])
    assert set(health["lanes"]) == {"structural", "leaf", "lineage"}
    assert all(lane["lag"] >= 0 and lane["current_as_of"] for lane in health["lanes"].values())


def test_a_write_is_in_the_audit_as_it_was_asked_for_and_as_it_was_applied(tenant: Tenant) -> None:
    trace = uuid4().hex
    written = tenant.post(headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}, tags=["pii"])
    batch = [table(f"asset-{number}") for number in range(5)]
    assert tenant.call("POST", json={"assets": batch}).status_code == 200

    def entries() -> list[dict[str, Any]]:
        lines = tenant.platform.lily("audit", "export", "--tenant", tenant.name).splitlines()
        return [json.loads(line) for line in lines]

    told = eventually(lambda: [found for found in [entries()] if len(found) >= 4], 30)[0]
    traced = {entry["action"]: entry for entry in told if entry["trace_id"] == trace}
    assert {action: entry["actor"] for action, entry in traced.items()} == {"write": "ada", "apply": "ada"}
    assert traced["write"]["address"] == "127.0.0.1"
    assert traced["apply"]["event_id"] == written.headers["lily-event-id"]
    assert traced["apply"]["reason"] == "created"
    assert [entry["reason"] for entry in told if entry["events"] == 5] == ["5 created"]
    of_asset = tenant.call("GET", "/audit/asset-3", role="auditor").json()["entries"]
    assert [entry["events"] for entry in of_asset] == [5], "the batch it was written in"
    tenant.platform.lily("audit", "verify")


def connected(tenant: Tenant) -> str:
    """A Monte Carlo connector of the tenant; its name is its secret."""
    body = {
        "type": "monte-carlo",
        "name": "mc",
        "secret": tenant.name,
        "config": {"data_source": "warehouse"},
    }
    answer = tenant.call("POST", f"/../connectors/{tenant.name}", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["connector_id"])


def reported(tenant: Tenant, connector: str, body: bytes) -> tuple[str, str]:
    """A signed webhook, taken; the incident and the event."""
    path, headers = f"/lily/v1/webhooks/monte-carlo/{connector}", monte_carlo.signed(tenant.name, body)
    answer = tenant.platform.client.post(path, content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["incidents"][0], answer.headers["lily-event-id"]


def shown(tenant: Tenant, asset_id: str, after: str) -> tuple[list[str], list[str]]:
    """The incidents on an asset and upstream of it."""
    document = tenant.get(asset_id, lily_after=after).json()
    return tuple(  # type: ignore[return-value] # two of them
        [each["incident_id"] for each in document[name]] for name in ("incidents", "affected_upstream")
    )


def test_a_signed_webhook_is_an_incident_on_its_asset_and_downstream_until_it_is_resolved(
    tenant: Tenant,
) -> None:
    assets = [table("o-1", data_source="warehouse", external_id="db.shop.orders"), table("board")]
    tenant.post({"assets": assets})
    edge = {"from_asset_id": "o-1", "to_asset_id": "board", "relationship_type": "used-in"}
    tenant.call("POST", "/lineage", json=edge)
    connector = connected(tenant)
    incident, event = reported(tenant, connector, monte_carlo.created("a", "orders"))
    assert shown(tenant, "o-1", event) == ([incident], [])
    assert shown(tenant, "board", event) == ([], [incident])
    told = tenant.platform.find_record(
        Topic.METADATA_CHANGES,
        lambda record: (
            headers_of(record).get("ce_id") == event
            and headers_of(record)["ce_type"] == "io.lily.incident.changed.v1"
        ),
    )
    change = json.loads(told.value() or b"")
    assert (change["outcome"], change["asset_id"], change["incident_id"]) == ("opened", "o-1", incident)
    assert told.key() == f"{tenant.name}/o-1".encode()
    acknowledged = tenant.call("POST", f"/../incidents/{incident}/acknowledge", json={"comment": "on it"})
    assert (acknowledged.status_code, acknowledged.json()["status"]) == (200, "acknowledged")
    _, event = reported(tenant, connector, monte_carlo.update("a", "resolved"))
    assert shown(tenant, "board", event) == shown(tenant, "o-1", event) == ([], [])
    timeline = tenant.call("GET", f"/../incidents/{incident}").json()["timeline"]
    assert [(step["step"], step["actor"]) for step in timeline] == [
        ("opened", "connector/mc"),
        ("acknowledged", "ada"),
        ("resolved", "connector/mc"),
    ]


def test_an_incident_that_came_before_its_asset_is_attached_when_the_asset_comes(tenant: Tenant) -> None:
    incident, _ = reported(tenant, connected(tenant), monte_carlo.created("a", "orders"))
    query = "SELECT incident_id FROM incidents WHERE tenant_id = %s"
    eventually(lambda: tenant.platform.fetch(query, tenant.name))
    created = tenant.post(asset_id="o-1", data_source="warehouse", external_id="db:shop.orders")
    assert shown(tenant, "o-1", created.headers["lily-event-id"]) == ([incident], [])
    told = tenant.platform.find_record(
        Topic.METADATA_CHANGES,
        lambda record: (
            b'"attached"' in (record.value() or b"") and incident.encode() in (record.value() or b"")
        ),
    )
    assert json.loads(told.value() or b"")["asset_id"] == "o-1"


def test_twenty_webhooks_a_second_are_told_soon(tenant: Tenant) -> None:
    connector = connected(tenant)
    reported(tenant, connector, monte_carlo.created("warm", "orders"))
    pace, count = 0.05, 40
    started, ids = time.monotonic(), []
    for number in range(count):
        time.sleep(max(0.0, started + number * pace - time.monotonic()))
        ids.append(reported(tenant, connector, monte_carlo.created(str(number), "orders"))[1])
    query = """
        SELECT count(*) AS told, max(extract(epoch FROM c.applied_at - c.event_time))::float AS worst
          FROM incident_changes AS c WHERE c.tenant_id = %s AND c.event_id = ANY(%s::uuid[])"""
    [seen] = eventually(
        lambda: [row for row in tenant.platform.fetch(query, tenant.name, ids) if row["told"] == count]
    )
    assert seen["worst"] < 5.0, "a bound for a loaded machine; docs/benchmarks.md has the figures"
