"""An Idempotency-Key makes a retry harmless."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from uuid import UUID

import pytest
from httpx import Response
from rest_kit import ASSETS, ORDERS, Gateway, gateway, problem

from kit.eventually import eventually
from lily.domain.event_ids import members
from lily.settings import Settings


@pytest.fixture
def api(settings: Settings) -> Iterator[Gateway]:
    with gateway(settings) as running:
        yield running


def post(api: Gateway, key: str, body: object = ORDERS, prefer: str = "respond-async") -> Response:
    return api.call("POST", ASSETS, json=body, headers={"idempotency-key": key, "prefer": prefer})


def test_a_retry_speaks_of_the_same_event(api: Gateway) -> None:
    first, second = post(api, '"k"'), post(api, "k")
    assert first.headers["lily-event-id"] == second.headers["lily-event-id"]
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert (first.status_code, first.json()) == (second.status_code, second.json())


def test_a_retry_of_what_is_visible_is_answered_without_another_record(api: Gateway) -> None:
    event_id = post(api, "k").headers["lily-event-id"]
    api.stored()
    api.applied(event_id, "created")
    response = post(api, "k", prefer="wait=5")
    assert (response.status_code, response.headers["idempotent-replayed"]) == (201, "true")
    assert response.json()["asset_id"] == "orders"
    assert len(api.logged()) == 1


def test_a_batch_can_be_retried(api: Gateway) -> None:
    body = {"assets": [ORDERS, ORDERS | {"asset_id": "b"}]}
    first, second = post(api, "k", body), post(api, "k", body)
    assert first.headers["lily-event-id"] == second.headers["lily-event-id"]
    assert len(api.logged()) == 4
    assert len({message.headers()[1] for message in api.logged()}) == 2


def test_another_payload_under_the_same_key_is_refused(api: Gateway) -> None:
    post(api, "k")
    problem(post(api, "k", ORDERS | {"asset_id": "other"}), 422, "idempotency_key_reused")
    assert len(api.logged()) == 1


def test_a_key_belongs_to_who_used_it(api: Gateway) -> None:
    headers = {"idempotency-key": "k", "prefer": "respond-async"}
    callers = [api.token(), api.token(tenant="globex"), api.token(subject="grace")]
    bodies = [ORDERS | {"description": str(n)} for n in range(3)]
    answers = [
        api.call("POST", ASSETS, as_=caller, json=body, headers=headers)
        for caller, body in zip(callers, bodies, strict=True)
    ]
    assert [answer.status_code for answer in answers] == [202] * 3
    assert len({answer.headers["lily-event-id"] for answer in answers}) == 3


def test_a_retry_while_the_first_is_in_flight_is_told_to_come_back(api: Gateway) -> None:
    answers: list[Response] = []
    first = threading.Thread(target=lambda: answers.append(post(api, "k", prefer="wait=20")))
    first.start()
    eventually(lambda: len(api.logged()) == 1)
    response = post(api, "k")
    problem(response, 409, "idempotency_key_in_flight")
    assert response.headers["retry-after"]
    with gateway(api.settings) as elsewhere:
        problem(post(elsewhere, "k"), 409, "idempotency_key_in_flight")
    api.stored()
    api.applied(dict(api.logged()[0].headers())["ce_id"].decode(), "created")
    first.join()
    assert answers[0].status_code == 201
    assert post(api, "k").status_code == 201


def test_a_refused_request_does_not_use_up_its_key(api: Gateway) -> None:
    problem(post(api, "k", {"asset_name": "n"}), 422, "invalid_input")
    assert post(api, "k").status_code == 202


def test_a_replayed_write_ignores_that_its_precondition_no_longer_holds(api: Gateway) -> None:
    api.stored(version=1)
    headers = {"idempotency-key": "k", "if-match": '"1"', "prefer": "respond-async"}
    body = {"description": "d"}
    first = api.call("PATCH", f"{ASSETS}/orders", json=body, headers=headers)
    assert first.status_code == 202
    api.execute("UPDATE assets SET version = 2")
    api.applied(first.headers["lily-event-id"], "updated", version=2)
    again = api.call("PATCH", f"{ASSETS}/orders", json=body, headers=headers)
    assert (again.status_code, again.headers["etag"]) == (200, '"2"')
    assert len(api.logged()) == 1


def test_an_entity_retried_is_the_same_entity(api: Gateway) -> None:
    entity = {"entity_type": "table", "attributes": {"name": "n"}}
    headers = {"idempotency-key": "k", "prefer": "respond-async"}
    first, second = (api.call("POST", "/ingest-metadata", json=entity, headers=headers) for _ in range(2))
    assert first.json() == second.json()


def test_the_members_of_a_keyed_batch_are_on_the_log(api: Gateway) -> None:
    batch = UUID(post(api, "k", {"assets": [ORDERS] * 3}).headers["lily-event-id"])
    on_log = sorted(dict(message.headers())["ce_id"].decode() for message in api.logged())
    assert on_log == [str(member) for member in members(batch)]
