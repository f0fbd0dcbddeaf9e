"""Subscriptions and notifications over REST: everybody's own, and hidden with their assets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from httpx import Response
from rest_kit import Gateway, gateway, problem

from kit.eventually import eventually
from lily.domain.changes import read_change
from lily.domain.subscriptions import Match, Subscription
from lily.domain.wording import Told, compose
from lily.log.topics import Topic
from lily.repositories.postgres.told import record_matches
from lily.settings import Settings

SUBSCRIPTIONS = "/lily/v1/subscriptions"
NOTIFICATIONS = "/lily/v1/notifications"


@pytest.fixture(scope="module")
def running(shared_settings: Settings) -> Iterator[Gateway]:
    with gateway(shared_settings) as started:
        yield started


@pytest.fixture
def api(running: Gateway) -> Gateway:
    running.execute(
        "TRUNCATE assets, edges, policies, subscriptions, notifications, notification_causes, connectors,"
        " api_keys CASCADE"
    )
    running.stored(asset_id="orders")
    running.stored(asset_id="daily", asset_name="Daily")
    return running


def subscribe(api: Gateway, as_: str | None = None, **body: Any) -> Response:
    return api.call("POST", SUBSCRIPTIONS, as_=as_, json=body)


def add_connector(api: Gateway, type_: str = "slack", name: str = "ops") -> str:
    secret = "https://hooks.slack.com/services/T/B/X" if type_ == "slack" else "whsec_" + "x" * 32
    config = {} if type_ == "slack" else {"url": "https://example.com/hook"}
    answer = api.call(
        "POST",
        "/lily/v1/connectors/acme",
        json={"type": type_, "name": name, "secret": secret, "config": config},
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["connector_id"])


def tell(api: Gateway, subscription: dict[str, Any], asset_id: str | None = "orders", **said: Any) -> None:
    """Record a match as a dispatcher does."""
    kind = said.pop("kind", "asset")
    path = said.pop("path", ())
    data = {
        "tenant_id": "acme",
        "asset_id": asset_id,
        "event_id": str(uuid4()),
        "outcome": "updated",
        "applied_at": "2026-02-01T00:00:00Z",
    } | said
    change = read_change(f"io.lily.{kind}.changed.v1", data)
    assert change is not None
    told_by = Subscription(
        "acme", subscription["subscription_id"], subscription["name"], subscription["owner"]
    )
    message = compose(told_by, Told(change, None, path=path))

    async def record() -> None:
        url = api.settings.database.url.get_secret_value()
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await record_matches(connection, [Match(told_by, change, change.event_id, message, path)])

    asyncio.run(record())


def notifications(api: Gateway, as_: str | None = None, **query: Any) -> list[dict[str, Any]]:
    answer = api.call("GET", NOTIFICATIONS, as_=as_, params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["notifications"]
    return found


def test_a_subscription_is_written_read_replaced_and_removed(api: Gateway) -> None:
    connector = add_connector(api)
    body = {
        "name": "Payments",
        "selection": {"changes": ["incident", "tags.changed"], "severities": ["SEV-1"], "tags": ["pii"]},
        "target": {"connector": "ops", "options": {"channel": "#data"}},
        "template": {"title": "{asset_name}: {change}"},
    }
    made = subscribe(api, **body)
    assert made.status_code == 201, made.text
    document = made.json()
    assert document["selection"] == {
        "changes": ["incident", "tags.changed"],
        "severities": ["SEV-1"],
        "tags": ["pii"],
    }
    assert document["target"] == {"connector_id": connector, "options": {"channel": "#data"}}
    assert document["owner"] == "ada"
    one = made.headers["location"]
    assert api.call("GET", one).json() == document
    replaced = api.call("PUT", one, json={"name": "Fewer", "selection": {"downstream_of": ["orders"]}})
    assert replaced.json()["selection"] == {"downstream_of": ["orders"]}
    assert replaced.json()["target"] is None
    assert [each["name"] for each in api.call("GET", SUBSCRIPTIONS).json()["subscriptions"]] == ["Fewer"]
    assert api.call("DELETE", one).status_code == 204
    problem(api.call("GET", one), 404, "not_found")


def test_the_settings_of_one_asset_are_a_subscription(api: Gateway) -> None:
    connector = add_connector(api)
    made = subscribe(api, asset_id="orders", endpoint="ops").json()
    assert (made["asset_id"], made["endpoint"]) == ("orders", connector)
    assert made["selection"] == {"assets": ["orders"]}
    subscribe(api, asset_id="daily")
    found = api.call("GET", SUBSCRIPTIONS, params={"asset_id": "orders"}).json()["subscriptions"]
    assert [each["subscription_id"] for each in found] == [made["subscription_id"]]


@pytest.mark.parametrize(
    ("url", "type_"),
    [
        ("https://hooks.slack.com/services/T/B/secret-part", "slack"),
        ("https://hooks.example.com/lily?key=1", "webhook"),
    ],
)
def test_an_endpoint_may_be_an_address_for_which_a_connector_is_found_or_made(
    api: Gateway, url: str, type_: str
) -> None:
    first = subscribe(api, asset_id="orders", endpoint=url).json()
    again = subscribe(api, asset_id="daily", endpoint=url).json()
    assert first["endpoint"] == again["endpoint"]
    [made] = api.call("GET", "/lily/v1/connectors/acme").json()["connectors"]
    assert (made["connector_id"], made["type"]) == (first["endpoint"], type_)
    assert "secret-part" not in json.dumps([made, first])
    assert made["config"] == ({} if type_ == "slack" else {"url": url})
    assert first.get("endpoint_secret", "").startswith("whsec_") == (type_ == "webhook")
    assert "endpoint_secret" not in again, "a secret is shown once"
    editor = api.token(role="editor")
    assert subscribe(api, editor, asset_id="orders", endpoint=url).status_code == 201
    other = subscribe(api, editor, asset_id="orders", endpoint=f"{url}2")
    problem(other, 403, "forbidden")


@pytest.mark.parametrize(
    "url", ["http://hooks.example.com/", "ftp://x.example/", "https://u:p@x.example/", "https://"]
)
def test_an_endpoint_lily_may_not_send_to_is_refused(api: Gateway, url: str) -> None:
    document = problem(subscribe(api, asset_id="orders", endpoint=url), 422, "invalid_input")
    assert document["errors"][0]["pointer"] == "/endpoint"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"selection": {"changes": ["asset.exploded"]}}, "/selection/changes"),
        ({"selection": {"unknown": []}}, "/selection/unknown"),
        ({"selection": {"tags": ["x\x00"]}}, "/selection"),
        ({"selection": {"assets": [f"a{number}" for number in range(101)]}}, "/selection/assets"),
        ({"template": {"title": "{asset_name.__class__}"}}, "/template/title"),
        ({"template": {"text": "{secret}"}}, "/template/text"),
        ({"template": {"text": "{% import os %}"}}, "/template/text"),
        ({"target": {"connector": "nowhere"}}, "/target"),
        ({"asset_id": "orders", "selection": {"assets": ["daily"]}}, "/asset_id"),
        ({"endpoint": "ops", "target": {"connector": "ops"}}, "/endpoint"),
    ],
)
def test_what_a_subscription_cannot_be_is_refused_with_its_place(
    api: Gateway, body: dict[str, Any], pointer: str
) -> None:
    document = problem(subscribe(api, **body), 422, "invalid_input")
    assert document["errors"][0]["pointer"].startswith(pointer)


def test_a_connector_that_only_listens_is_no_target(api: Gateway) -> None:
    api.call(
        "POST",
        "/lily/v1/connectors/acme",
        json={"type": "monte-carlo", "name": "mc", "secret": "s" * 32, "config": {}},
    )
    problem(subscribe(api, target={"connector": "mc"}), 422, "invalid_input")


def test_a_viewer_subscribes_for_themselves_and_tells_no_target(api: Gateway) -> None:
    add_connector(api)
    viewer = api.token(role="viewer", subject="vic")
    assert subscribe(api, viewer, selection={"changes": ["incident"]}).status_code == 201
    problem(subscribe(api, viewer, target={"connector": "ops"}), 403, "forbidden")
    assert subscribe(api, api.token(role="editor"), target={"connector": "ops"}).status_code == 201


def test_nobody_sees_changes_or_removes_the_subscription_of_another(api: Gateway) -> None:
    mine = subscribe(api, api.token(role="editor", subject="eva")).headers["location"]
    other = api.token(role="editor", subject="bob")
    for method in ("GET", "PUT", "DELETE"):
        problem(api.call(method, mine, as_=other, json={}), 404, "not_found")
    problem(api.call("POST", f"{mine}/test", as_=other), 404, "not_found")
    assert api.call("GET", SUBSCRIPTIONS, as_=other).json()["subscriptions"] == []
    problem(api.call("GET", SUBSCRIPTIONS, as_=other, params={"everybody": True}), 403, "forbidden")
    globex = api.token(tenant="globex")
    problem(api.call("GET", mine, as_=globex), 404, "not_found")


def test_an_administrator_sees_and_removes_but_does_not_rewrite_what_others_are_told(api: Gateway) -> None:
    mine = subscribe(api, api.token(role="editor", subject="eva")).headers["location"]
    owner = api.token(role="owner", subject="root")
    found = api.call("GET", SUBSCRIPTIONS, as_=owner, params={"everybody": True}).json()["subscriptions"]
    assert [each["owner"] for each in found] == ["eva"]
    problem(api.call("PUT", mine, as_=owner, json={}), 403, "forbidden")
    assert api.call("DELETE", mine, as_=owner).status_code == 204


def test_a_credential_for_reading_writes_no_subscription_and_no_notification(api: Gateway) -> None:
    one = subscribe(api).json()
    tell(api, one)
    [notification] = notifications(api)
    key = api.call(
        "POST", "/lily/v1/api-keys", json={"name": "reader", "roles": ["owner"], "scopes": ["lily:read"]}
    ).json()["api_key"]
    assert api.call("GET", f"{SUBSCRIPTIONS}/{one['subscription_id']}", as_=key).status_code == 200
    problem(subscribe(api, key), 403, "forbidden")
    problem(api.call("DELETE", f"{SUBSCRIPTIONS}/{one['subscription_id']}", as_=key), 403, "forbidden")
    seen = f"{NOTIFICATIONS}/{notification['notification_id']}/seen"
    problem(api.call("POST", seen, as_=key), 403, "forbidden")


def test_subscriptions_come_in_pages(api: Gateway) -> None:
    for number in range(5):
        subscribe(api, name=f"s{number}")
    names: list[str] = []
    token = ""
    while True:
        page = api.call("GET", SUBSCRIPTIONS, params={"page_size": 2, "page_token": token}).json()
        names += [each["name"] for each in page["subscriptions"]]
        token = page["next_page_token"]
        if not token:
            break
    assert sorted(names) == [f"s{number}" for number in range(5)]


def test_a_notification_is_seen_acknowledged_and_resolved_and_never_goes_back(api: Gateway) -> None:
    tell(api, subscribe(api).json())
    [notification] = notifications(api)
    assert notification["state"] == "new"
    one = f"{NOTIFICATIONS}/{notification['notification_id']}"
    for step, state in (
        ("seen", "seen"),
        ("acknowledge", "acknowledged"),
        ("seen", "acknowledged"),
        ("resolve", "resolved"),
        ("acknowledge", "resolved"),
    ):
        assert api.call("POST", f"{one}/{step}").json()["state"] == state
    assert notifications(api, state=["new", "seen"]) == []
    assert len(notifications(api, state="resolved")) == 1


def test_a_notification_is_snoozed_assigned_and_noted(api: Gateway) -> None:
    tell(api, subscribe(api).json())
    [notification] = notifications(api)
    one = f"{NOTIFICATIONS}/{notification['notification_id']}"
    assert api.call("POST", f"{one}/snooze", json={"minutes": 60}).status_code == 200
    assert notifications(api) == []
    assert len(notifications(api, snoozed=True)) == 1
    assert api.call("POST", f"{one}/snooze", json={}).json()["snoozed_until"] is None
    bob = api.token(role="viewer", subject="bob")
    problem(api.call("GET", one, as_=bob), 404, "not_found")
    assert api.call("POST", f"{one}/assign", json={"assignee": "bob"}).json()["assignee"] == "bob"
    assert [each["notification_id"] for each in notifications(api, bob)] == [notification["notification_id"]]
    assert api.call("POST", f"{one}/note", as_=bob, json={"note": "on it"}).json()["note"] == "on it"
    assert api.call("POST", f"{one}/assign", json={"assignee": None}).json()["assignee"] is None
    problem(api.call("GET", one, as_=bob), 404, "not_found")


def test_why_a_notification_came_is_rule_change_and_path(api: Gateway) -> None:
    subscription = subscribe(api, name="Below orders", selection={"downstream_of": ["orders"]}).json()
    tell(api, subscription, "daily", path=("orders", "daily"))
    [notification] = notifications(api)
    why = api.call("GET", f"{NOTIFICATIONS}/{notification['notification_id']}/why").json()
    [because] = why["because"]
    assert because["subscription"] == "Below orders"
    assert because["change"] == "asset.updated"
    assert because["asset_id"] == "daily"
    assert because["path"] == ["orders", "daily"]


def test_a_notification_is_hidden_with_its_asset_also_later(api: Gateway) -> None:
    viewer = api.token(role="viewer", subject="vic")
    subscription = subscribe(api, viewer).json()
    tell(api, subscription, "orders", cause="1")
    tell(api, subscription, "daily", cause="2", path=("orders", "daily"))
    found = {each["asset_id"]: each["notification_id"] for each in notifications(api, viewer)}
    assert set(found) == {"orders", "daily"}
    api.execute("UPDATE assets SET user_tags = '{pii}' WHERE asset_id = 'orders'")
    policy = {"role": "viewer", "access_type": "READ", "effect": "forbid", "scope": "tag", "value": "pii"}
    assert api.call("POST", "/lily/v1/access/policies", json=policy).status_code == 201
    shown = notifications(api, viewer)
    assert [each["asset_id"] for each in shown] == ["daily"]
    assert "orders" not in json.dumps(shown).lower()
    hidden = f"{NOTIFICATIONS}/{found['orders']}"
    for method, path in (("GET", hidden), ("GET", f"{hidden}/why"), ("POST", f"{hidden}/seen")):
        problem(api.call(method, path, as_=viewer), 404, "not_found")
    why = api.call("GET", f"{NOTIFICATIONS}/{found['daily']}/why", as_=viewer)
    assert [because["path"] for because in why.json()["because"]] == [[]]
    assert "orders" not in why.text.lower()


def test_an_incident_of_no_asset_shows_to_who_may_read_incidents(api: Gateway) -> None:
    viewer = api.token(role="viewer", subject="vic")
    tell(api, subscribe(api, viewer).json(), None, kind="incident", incident_id="i1")
    tell(api, subscribe(api).json(), None, kind="incident", incident_id="i1")
    assert notifications(api, viewer) == []
    assert [each["incident_id"] for each in notifications(api)] == ["i1"]


def test_notifications_come_in_pages_newest_first(api: Gateway) -> None:
    subscription = subscribe(api).json()
    for number in range(5):
        tell(api, subscription, cause=str(number), applied_at=f"2026-02-01T00:00:0{number}Z")
    times: list[str] = []
    token = ""
    while True:
        page = api.call("GET", NOTIFICATIONS, params={"page_size": 2, "page_token": token}).json()
        times += [each["last_at"] for each in page["notifications"]]
        token = page["next_page_token"]
        if not token:
            break
    assert times == sorted(times, reverse=True)
    assert len(times) == 5


def test_a_notice_by_hand_goes_over_the_log(api: Gateway) -> None:
    notice = {"asset_id": "orders", "title": "Moving tonight", "text": "to {another} database"}
    accepted = api.call(
        "POST", "/lily/v1/metadata/notifications", json=notice, headers={"idempotency-key": '"k1"'}
    )
    again = api.call(
        "POST", "/lily/v1/metadata/notifications", json=notice, headers={"idempotency-key": '"k1"'}
    )
    assert accepted.status_code == again.status_code == 202
    assert accepted.json() == again.json()
    event_id = accepted.headers["lily-event-id"].encode()
    told = [each for each in api.logged(Topic.NOTIFICATIONS) if dict(each.headers())["ce_id"] == event_id]
    assert len(told) == 2  # told by a dispatcher once: it is one event
    record = told[0]
    change = read_change(dict(record.headers())["ce_type"].decode(), json.loads(record.value()))
    assert change is not None
    assert (change.name, change.subject) == ("notification.requested", "orders")
    assert change.event_id == accepted.headers["lily-event-id"]


def test_a_notice_needs_the_right_to_change_its_asset(api: Gateway) -> None:
    notice = {"asset_id": "orders", "title": "Moving tonight"}
    viewer = api.token(role="viewer")
    problem(api.call("POST", "/lily/v1/metadata/notifications", as_=viewer, json=notice), 403, "forbidden")
    notice["asset_id"] = "absent"
    problem(api.call("POST", "/lily/v1/metadata/notifications", json=notice), 404, "not_found")


def test_a_test_of_a_subscription_goes_over_the_log(api: Gateway) -> None:
    one = subscribe(api, api.token(role="viewer", subject="vic")).json()["subscription_id"]
    answer = api.call("POST", f"{SUBSCRIPTIONS}/{one}/test", as_=api.token(role="viewer", subject="vic"))
    assert answer.status_code == 202
    events = [json.loads(record.value()) for record in api.logged(Topic.NOTIFICATIONS)]
    [event] = [each for each in events if each["event_id"] == answer.json()["event_id"]]
    assert event["subscription_id"] == one
    assert event["asset_id"] is None


def test_everything_written_is_in_the_audit(api: Gateway) -> None:
    one = subscribe(api).json()["subscription_id"]
    api.call("DELETE", f"{SUBSCRIPTIONS}/{one}")

    def noted() -> bool:
        rows = api.fetch(
            "SELECT action FROM audit WHERE resource_kind = 'subscription' AND resource_id = %s", one
        )
        return {row[0] for row in rows} >= {"create", "delete"}

    eventually(noted)
