"""Writing assets: what reaches the log, what is answered, and when."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from rest_kit import ASSETS, ORDERS, Gateway, gateway, problem

from kit.eventually import eventually
from lily.domain.assets import derive_asset_id
from lily.domain.event_ids import members, size_of
from lily.log.topics import Topic
from lily.settings import Settings

ASYNC = {"prefer": "respond-async"}


@pytest.fixture
def api(settings: Settings) -> Iterator[Gateway]:
    with gateway(settings) as running:
        yield running


def event_ids(api: Gateway, topic: Topic = Topic.STRUCTURAL_ASSETS) -> list[str]:
    return [dict(message.headers())["ce_id"].decode() for message in api.logged(topic)]


def data(api: Gateway) -> list[dict[str, Any]]:
    return [json.loads(message.value()) for message in api.logged()]


def apply_next(api: Gateway, outcome: str, **columns: Any) -> threading.Thread:
    """Once one more event is on the log, record it as applied."""
    before = len(api.logged())

    def apply() -> None:
        eventually(lambda: len(api.logged()) > before)
        latest = max(api.logged(), key=lambda message: (message.timestamp(), message.offset()))
        api.applied(dict(latest.headers())["ce_id"].decode(), outcome, **columns)

    thread = threading.Thread(target=apply)
    thread.start()
    return thread


def test_an_accepted_event_is_on_the_log_before_the_answer(api: Gateway) -> None:
    body = ORDERS | {"description": None, "tags": ["b", "a"], "event_time": "2026-01-01T01:00:00+01:00"}
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    response = api.call(
        "POST", ASSETS, json=body, headers=ASYNC | {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    )
    assert response.status_code == 202
    assert response.headers["preference-applied"] == "respond-async"
    assert response.headers["location"] == f"{ASSETS}/orders"
    (message,) = api.logged()
    headers = {name: value.decode() for name, value in message.headers()}
    assert headers["ce_id"] == response.headers["lily-event-id"] == response.json()["event_id"]
    assert (headers["ce_type"], headers["ce_subject"]) == ("io.lily.asset.asserted.v1", "orders")
    assert (headers["ce_tenantid"], headers["ce_actor"]) == ("acme", "ada")
    assert headers["traceparent"].startswith(f"00-{trace}-")
    assert message.key() == b"acme/orders"
    said = {
        "description": None,
        "tags": ["a", "b"],
        "tag_origin": "user",
        "event_time": "2026-01-01T00:00:00Z",
    }
    assert json.loads(message.value()) == ORDERS | said


def test_an_asset_without_an_id_gets_the_one_of_its_source(api: Gateway) -> None:
    body = {"asset_name": "n", "asset_type": "table", "data_source": "s", "external_id": "1"}
    response = api.call("POST", ASSETS, json=body, headers=ASYNC)
    assert response.json()["asset_id"] == derive_asset_id("s", "1")


def test_leaf_assets_take_their_own_lane(api: Gateway) -> None:
    assets = [ORDERS | {"asset_id": str(n), "asset_type": "column" if n else "table"} for n in range(4)]
    response = api.call("POST", ASSETS, json={"assets": assets}, headers=ASYNC)
    assert response.status_code == 202
    assert response.json() == {"accepted": 4, "rejected": []}
    batch = UUID(response.headers["lily-event-id"])
    assert size_of(batch) == 4
    on_log = event_ids(api) + event_ids(api, Topic.LEAF_ASSETS)
    assert sorted(on_log) == [str(member) for member in members(batch)]
    assert len(event_ids(api, Topic.LEAF_ASSETS)) == 3


def test_a_batch_accepts_the_good_and_names_the_bad(api: Gateway) -> None:
    bad = [
        {"asset_name": "x"},
        ORDERS | {"tenant_id": "globex"},
        ORDERS | {"event_time": "2999-01-01T00:00:00Z"},
    ]
    response = api.call("POST", ASSETS, json={"assets": [bad[0], ORDERS, *bad[1:]]}, headers=ASYNC)
    assert response.status_code == 202
    answer = response.json()
    assert answer["accepted"] == 1
    codes = {each["index"]: each["problem"]["code"] for each in answer["rejected"]}
    assert codes == {0: "invalid_input", 2: "forbidden", 3: "invalid_input"}
    assert size_of(UUID(response.headers["lily-event-id"])) == len(api.logged()) == 1


def test_a_batch_with_nothing_good_is_refused(api: Gateway) -> None:
    answer = problem(api.call("POST", ASSETS, json={"assets": [{}, {}]}), 422, "invalid_input")
    assert answer["accepted"] == 0
    assert [each["index"] for each in answer["rejected"]] == [0, 1]
    assert api.logged() == []


def test_a_created_asset_is_answered_when_it_is_visible(api: Gateway) -> None:
    api.stored()
    applying = apply_next(api, "created")
    response = api.call("POST", ASSETS, json=ORDERS)
    applying.join()
    assert response.status_code == 201
    assert response.headers["location"] == f"{ASSETS}/orders"
    assert response.headers["etag"] == '"1"'
    assert response.json()["asset_name"] == "Orders"


@pytest.mark.parametrize("outcome", ["updated", "unchanged", "superseded", "restored"])
def test_a_known_asset_is_answered_with_200(api: Gateway, outcome: str) -> None:
    api.stored(version=2)
    applying = apply_next(api, outcome)
    response = api.call("POST", ASSETS, json=ORDERS)
    applying.join()
    assert (response.status_code, response.headers["etag"]) == (200, '"2"')
    assert "location" not in response.headers


def test_an_event_refused_for_its_version_is_a_failed_precondition(api: Gateway) -> None:
    api.stored(version=2)
    applying = apply_next(api, "refused")
    response = api.call("POST", ASSETS, json=ORDERS, headers={"if-match": '"2"'})
    applying.join()
    problem(response, 412, "version_conflict")
    assert data(api)[0]["expected_version"] == 2


def test_a_dead_letter_is_answered_with_its_reason(api: Gateway) -> None:
    row = {"lane": "structural", "topic": "t", "partition": 0, "offset": 0, "tenant_id": "acme"}
    refusal = {"reason": "malformed", "detail": "it is broken", "payload": b"", "headers": "{}"}

    def bury() -> None:
        eventually(lambda: len(api.logged()) == 1)
        api.insert("dead_letters", row | refusal | {"event_id": event_ids(api)[0]})

    burying = threading.Thread(target=bury)
    burying.start()
    response = api.call("POST", ASSETS, json=ORDERS)
    burying.join()
    assert "it is broken" in problem(response, 422, "invalid_input")["detail"]
    assert response.headers["lily-event-id"] == event_ids(api)[0]


def test_a_write_that_is_not_visible_in_time_is_told_to_be_safe(api: Gateway) -> None:
    response = api.call("POST", ASSETS, json=ORDERS, headers={"prefer": "wait=1"})
    assert "safe" in problem(response, 504, "not_visible_yet")["detail"]
    assert event_ids(api) == [response.headers["lily-event-id"]]


def test_a_caller_may_wait_a_while_and_then_go_on(api: Gateway) -> None:
    response = api.call("POST", ASSETS, json=ORDERS, headers={"prefer": "respond-async, wait=1"})
    assert response.status_code == 202
    assert event_ids(api) == [response.headers["lily-event-id"]]


def test_what_does_not_exist_cannot_be_changed(api: Gateway) -> None:
    for method, body in (("PUT", ORDERS), ("PATCH", ORDERS), ("DELETE", None)):
        problem(api.call(method, f"{ASSETS}/orders", json=body), 404, "not_found")
    assert api.logged() == []


def test_a_version_that_is_gone_already_is_refused_at_once(api: Gateway) -> None:
    api.stored(version=3)
    one = f"{ASSETS}/orders"
    for method, path, body in (
        ("PUT", one, ORDERS),
        ("PATCH", one, ORDERS),
        ("DELETE", one, None),
        ("POST", ASSETS, ORDERS),
    ):
        response = api.call(method, path, json=body, headers={"if-match": '"2"'})
        problem(response, 412, "version_conflict")
    assert api.logged() == []


def test_put_clears_what_it_does_not_mention(api: Gateway) -> None:
    api.stored()
    body = {"asset_name": "New", "asset_type": "view"}
    assert api.call("PUT", f"{ASSETS}/orders", json=body, headers=ASYNC).status_code == 202
    (said,) = data(api)
    cleared = (
        "asset_owner",
        "description",
        "data_source",
        "external_id",
        "tags",
        "business_terms",
        "metadata",
    )
    assert [said[name] for name in cleared] == [None] * len(cleared)
    assert (said["asset_name"], said["is_deleted"]) == ("New", None)


def test_put_refuses_another_id_in_the_body(api: Gateway) -> None:
    api.stored()
    response = api.call("PUT", f"{ASSETS}/orders", json=ORDERS | {"asset_id": "other"})
    assert problem(response, 422, "invalid_input")["errors"][0]["pointer"] == "/asset_id"


@pytest.mark.parametrize("media_type", ["application/merge-patch+json", "application/json"])
def test_patch_says_only_what_it_mentions(api: Gateway, media_type: str) -> None:
    api.stored(asset_type="column")
    headers = ASYNC | {"content-type": media_type}
    response = api.call("PATCH", f"{ASSETS}/orders", content=b'{"description": null}', headers=headers)
    assert response.status_code == 202
    (message,) = api.logged(Topic.LEAF_ASSETS)
    assert set(json.loads(message.value())) == {"asset_id", "description", "event_time"}


def test_patch_merges_metadata_into_the_version_it_read(api: Gateway) -> None:
    api.stored(version=7, metadata='{"a": {"x": 1, "y": 2}, "b": 3}')
    applying = apply_next(api, "updated")
    patch = {"metadata": {"a": {"y": None, "z": 4}}}
    assert api.call("PATCH", f"{ASSETS}/orders", json=patch, headers=ASYNC).status_code == 200
    applying.join()
    (said,) = data(api)
    assert said["metadata"] == {"a": {"x": 1, "z": 4}, "b": 3}
    assert said["expected_version"] == 7


def test_patch_merges_again_when_another_write_came_between(api: Gateway) -> None:
    api.stored(metadata='{"a": 1}')

    def interfere() -> None:
        eventually(lambda: len(api.logged()) == 1)
        api.execute("UPDATE assets SET version = 2, metadata = %s", '{"b": 2}')
        api.applied(event_ids(api)[0], "refused")
        eventually(lambda: len(api.logged()) == 2)
        second = next(m for m in api.logged() if json.loads(m.value())["expected_version"] == 2)
        api.applied(dict(second.headers())["ce_id"].decode(), "updated")

    interfering = threading.Thread(target=interfere)
    interfering.start()
    response = api.call("PATCH", f"{ASSETS}/orders", json={"metadata": {"c": 3}})
    interfering.join()
    assert response.status_code == 200
    said = sorted(data(api), key=lambda each: each["expected_version"])
    assert [each["metadata"] for each in said] == [{"a": 1, "c": 3}, {"b": 2, "c": 3}]


def test_delete_says_that_the_asset_is_deleted(api: Gateway) -> None:
    api.stored()
    response = api.call("DELETE", f"{ASSETS}/orders", headers=ASYNC)
    assert response.status_code == 202
    assert data(api)[0]["is_deleted"] is True


def test_purge_is_an_event_of_its_own(api: Gateway) -> None:
    api.stored()
    applying = apply_next(api, "purged")
    response = api.call("DELETE", f"{ASSETS}/orders?purge=true")
    applying.join()
    assert (response.status_code, response.content) == (204, b"")
    (message,) = api.logged()
    assert dict(message.headers())["ce_type"] == b"io.lily.asset.purged.v1"


def test_a_viewer_may_not_write(api: Gateway) -> None:
    api.stored()
    viewer = api.token(role="viewer")
    for method, path in [
        ("POST", ASSETS),
        ("PUT", f"{ASSETS}/orders"),
        ("PATCH", f"{ASSETS}/orders"),
        ("DELETE", f"{ASSETS}/orders"),
        ("DELETE", f"{ASSETS}/orders?purge=true"),
        ("POST", "/ingest-metadata"),
        ("PUT", "/metadata/orders"),
        ("DELETE", "/metadata/orders"),
    ]:
        problem(api.call(method, path, as_=viewer, json=ORDERS), 403, "forbidden")
    assert api.call("GET", f"{ASSETS}/orders", as_=viewer).status_code == 200
    assert api.logged() == []


def test_another_tenants_asset_cannot_be_changed(api: Gateway) -> None:
    api.stored()
    stranger = api.token(tenant="globex")
    for method in ("PUT", "PATCH", "DELETE"):
        body = None if method == "DELETE" else ORDERS
        problem(api.call(method, f"{ASSETS}/orders", as_=stranger, json=body), 404, "not_found")
    problem(api.call("POST", ASSETS, as_=stranger, json=ORDERS | {"tenant_id": "acme"}), 403, "forbidden")


def test_an_entity_becomes_an_asset(api: Gateway) -> None:
    entity = {
        "entity_type": "table",
        "attributes": {"name": "n", "description": "d", "created_by": "ada", "tags": ["pii"], "rows": 7},
        "tenant_id": "acme",
    }
    response = api.call("POST", "/ingest-metadata", json=entity, headers=ASYNC)
    assert response.status_code == 202
    assert response.json()["status"] == "success"
    (said,) = data(api)
    assert said.pop("event_time")
    assert said == {
        "asset_id": response.json()["metadata_id"],
        "asset_name": "n",
        "asset_type": "table",
        "asset_owner": "ada",
        "description": "d",
        "tags": ["pii"],
        "tag_origin": "user",
        "metadata": {"rows": 7},
    }


def test_an_entity_can_be_changed_and_deleted(api: Gateway) -> None:
    api.stored()
    update = {"attributes": {"name": "new"}}
    response = api.call("PUT", "/metadata/orders", json=update, headers=ASYNC)
    assert response.json() == {"status": "success", "metadata_id": "orders"}
    assert api.call("DELETE", "/metadata/orders", headers=ASYNC).json()["status"] == "success"
    assert {frozenset(each) for each in data(api)} == {
        frozenset({"asset_id", "asset_name", "event_time"}),
        frozenset({"asset_id", "is_deleted", "event_time"}),
    }


def test_an_invalid_entity_is_a_bad_request(api: Gateway) -> None:
    headers = {"content-type": "application/json"}
    for body in (
        b"{",
        b"{}",
        b'{"entity_type": "table", "attributes": {}}',
        b'{"entity_type": "table", "attributes": {"name": 7}}',
        b'{"entity_type": "table", "attributes": {"name": "n"}, "x": 1}',
        b'{"entity_type": "table", "attributes": {"name": "n", "deep": ' + b"[" * 70 + b"]" * 70 + b"}}",
    ):
        problem(api.call("POST", "/ingest-metadata", content=body, headers=headers), 400, "invalid_entity")
