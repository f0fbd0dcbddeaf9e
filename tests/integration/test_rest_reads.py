"""Reading assets: as they are, as they were, their history, and after an event."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from rest_kit import ASSETS, Gateway, gateway, problem

from lily.domain.event_ids import members, new_batch_id
from lily.settings import Settings


@pytest.fixture
def api(settings: Settings) -> Iterator[Gateway]:
    with gateway(settings) as running:
        yield running


def day(number: int) -> datetime:
    return datetime(2026, 1, number, tzinfo=UTC)


def test_an_asset_is_served_with_its_version_as_entity_tag(api: Gateway) -> None:
    api.stored(version=3, user_tags=["pii"], metadata='{"rows": 1}')
    response = api.call("GET", f"{ASSETS}/orders")
    assert response.status_code == 200
    assert response.headers["etag"] == '"3"'
    document = response.json()
    assert (document["asset_id"], document["version"], document["tags"]) == ("orders", 3, ["pii"])
    assert document["metadata"] == {"rows": 1}
    assert document["created_at"] == "2026-01-01T00:00:00+00:00"


def test_an_unchanged_asset_is_not_sent_again(api: Gateway) -> None:
    api.stored(version=3)
    for header, status in [('"3"', 304), ('"2", W/"3"', 304), ("*", 304), ('"2"', 200), ("3", 200)]:
        response = api.call("GET", f"{ASSETS}/orders", headers={"if-none-match": header})
        assert (response.status_code, bool(response.content)) == (status, status == 200), header


def test_a_deleted_asset_is_served_as_deleted(api: Gateway) -> None:
    api.stored(is_deleted=True)
    assert api.call("GET", f"{ASSETS}/orders").json()["is_deleted"] is True


@pytest.mark.parametrize("columns", [{"asset_name": None}, {"asset_type": None}], ids=str)
def test_an_asset_only_spoken_about_is_not_found(api: Gateway, columns: dict[str, None]) -> None:
    api.stored(**columns)
    problem(api.call("GET", f"{ASSETS}/orders"), 404, "not_found")


def test_an_id_may_have_any_characters(api: Gateway) -> None:
    for asset_id, path in [
        ("a/b", "a%2Fb"),
        ("a/b/c", "a/b/c"),
        ("größe ?#%", "gr%C3%B6%C3%9Fe%20%3F%23%25"),
        ("..", "%2E%2E"),
    ]:
        api.stored(asset_id=asset_id)
        assert api.call("GET", f"{ASSETS}/{path}").json()["asset_id"] == asset_id


def test_an_id_that_is_no_text_is_refused(api: Gateway) -> None:
    for asset_id in ("a%00b", "%FF", "%ED%A0%80", "%C3"):
        for method in ("GET", "DELETE"):
            response = api.call(method, f"{ASSETS}/{asset_id}")
            assert response.status_code in (400, 404), asset_id
            problem(response, response.status_code, response.json()["code"])


def test_another_tenants_asset_is_not_found(api: Gateway) -> None:
    api.stored()
    api.applied(uuid4(), "created", asset_name="Orders", asset_type="table")
    stranger = api.token(tenant="globex")
    for query in ("", "?history=true", "?as_of=2027-01-01T00:00:00Z"):
        problem(api.call("GET", f"{ASSETS}/orders{query}", as_=stranger), 404, "not_found")
    problem(api.call("GET", "/metadata/orders", as_=stranger), 404, "not_found")


def test_as_of_answers_the_state_after_the_last_event_up_to_then(api: Gateway) -> None:
    told = {"asset_type": "table", "created_at": day(2), "updated_at": day(2)}
    api.applied(uuid4(), "created", event_time=day(2), asset_name="first", **told)
    api.applied(uuid4(), "updated", event_time=day(4), asset_name="second", version=2, **told)
    api.applied(uuid4(), "superseded", event_time=day(3), version=2)
    api.stored(asset_name="second", version=2)
    for moment, name in [
        ("2026-01-02T00:00:00Z", "first"),
        ("2026-01-03T12:00:00Z", "first"),
        ("2026-01-04T01:00:00+01:00", "second"),
        ("2026-01-05", "second"),
    ]:
        response = api.client.get(
            f"{ASSETS}/orders", params={"as_of": moment}, headers={"authorization": f"Bearer {api.token()}"}
        )
        assert response.json()["asset_name"] == name, moment
    problem(api.call("GET", f"{ASSETS}/orders?as_of=2026-01-01T23:59:59Z"), 404, "not_found")


def test_as_of_must_be_a_time(api: Gateway) -> None:
    for moment in ("", "yesterday", "2026-13-01", "0001-01-01T00:00:00%2B14:00"):
        problem(api.call("GET", f"{ASSETS}/orders?as_of={moment}"), 400, "malformed_request")


def test_history_comes_in_pages_newest_first_without_what_changed_nothing(api: Gateway) -> None:
    api.stored(version=5)
    told = {"asset_name": "Orders", "asset_type": "table", "created_at": day(1), "updated_at": day(1)}
    for version in range(1, 6):
        api.applied(
            uuid4(), "created" if version == 1 else "updated", version=version, fields=1 | 128, **told
        )
    for outcome in ("unchanged", "pending", "refused"):
        api.applied(uuid4(), outcome, version=5)
    api.applied(uuid4(), "superseded", version=5)
    seen, token = [], ""
    while True:
        page = api.call("GET", f"{ASSETS}/orders?history=true&page_size=2&page_token={token}").json()
        assert len(page["history"]) <= 2
        seen += [(entry["version"], entry["outcome"]) for entry in page["history"]]
        token = page["next_page_token"]
        if not token:
            break
    assert seen == [(5, "superseded"), *((n, "updated") for n in (5, 4, 3, 2)), (1, "created")]
    whole = api.call("GET", f"{ASSETS}/orders?history=true").json()["history"]
    assert whole[1]["changed"] == ["asset_name", "tags"]
    assert whole[1]["asset"]["asset_name"] == "Orders"
    assert whole[0]["asset"] is None


def test_a_page_token_of_another_asset_is_refused(api: Gateway) -> None:
    told = {"asset_name": "x", "asset_type": "table", "created_at": day(1), "updated_at": day(1)}
    for asset_id in ("orders", "other"):
        api.stored(asset_id=asset_id)
        for version in (1, 2):
            api.applied(uuid4(), "updated", asset_id=asset_id, version=version, **told)
    token = api.call("GET", f"{ASSETS}/orders?history=true&page_size=1").json()["next_page_token"]
    assert api.call("GET", f"{ASSETS}/orders?history=true&page_token={token}").status_code == 200
    refused = api.call("GET", f"{ASSETS}/other?history=true&page_token={token}")
    problem(refused, 400, "malformed_request")


def test_a_bad_parameter_is_named(api: Gateway) -> None:
    api.stored()
    for query in ("page_size=-1", "page_size=x", "history=perhaps", "page_token=x"):
        answer = problem(api.call("GET", f"{ASSETS}/orders?history=true&{query}"), 400, "malformed_request")
        assert query.partition("=")[0] in answer["detail"]


def test_a_read_waits_for_the_event_it_names(api: Gateway) -> None:
    batch = new_batch_id(1, 2)
    first, second = members(batch)
    api.stored()
    api.applied(first, "created")
    waited = {"lily-after": str(batch), "prefer": "wait=20"}
    threading.Timer(0.5, api.applied, (second, "updated"), {"version": 2}).start()
    started = time.monotonic()
    response = api.call("GET", f"{ASSETS}/orders", headers=waited)
    assert response.status_code == 200
    assert 0.4 < time.monotonic() - started < 5


def test_a_dead_letter_is_settled_too(api: Gateway) -> None:
    event_id = new_batch_id(1)
    api.stored()
    row = {"lane": "structural", "topic": "t", "partition": 0, "offset": 0, "tenant_id": "acme"}
    refusal = {
        "event_id": str(event_id),
        "reason": "malformed",
        "detail": "d",
        "payload": b"",
        "headers": "{}",
    }
    api.insert("dead_letters", row | refusal)
    assert api.call("GET", f"{ASSETS}/orders", headers={"lily-after": str(event_id)}).status_code == 200


def test_a_read_gives_up_after_its_time_limit(api: Gateway) -> None:
    event_id = new_batch_id(1)
    api.stored()
    api.applied(event_id, "created", tenant_id="globex")
    waited = {"lily-after": str(event_id), "prefer": "wait=1"}
    response = api.call("GET", f"{ASSETS}/orders", headers=waited)
    problem(response, 504, "not_visible_yet")
    assert response.headers["lily-event-id"] == str(event_id)
    assert response.headers["retry-after"]


def test_a_malformed_event_id_is_refused(api: Gateway) -> None:
    problem(api.call("GET", f"{ASSETS}/x", headers={"lily-after": "soon"}), 400, "malformed_request")


def test_an_entity_shows_the_asset_in_its_form(api: Gateway) -> None:
    api.stored(asset_owner="ada", user_tags=["pii"], metadata='{"rows": 1}', description="d")
    assert api.call("GET", "/metadata/orders").json() == {
        "metadata_id": "orders",
        "entity_type": "table",
        "attributes": {
            "name": "Orders",
            "description": "d",
            "created_by": "ada",
            "tags": ["pii"],
            "rows": 1,
        },
        "tenant_id": "acme",
        "created_at": "2026-01-01T00:00:00+00:00",
        "updated_at": "2026-01-01T00:00:00+00:00",
    }


def test_a_deleted_entity_is_not_found(api: Gateway) -> None:
    api.stored(is_deleted=True)
    problem(api.call("GET", "/metadata/orders"), 404, "not_found")
