"""What a tenant tries on another: ids, page tokens, idempotency keys, event ids, entities."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from rest_kit import ASSETS, ORDERS, Gateway, gateway, problem

from lily.domain.event_ids import new_batch_id
from lily.settings import Settings


@pytest.fixture
def api(settings: Settings) -> Iterator[Gateway]:
    """A gateway with an asset of acme, which globex is after."""
    with gateway(settings) as running:
        running.stored(metadata='{"secret": "acme-only"}')
        for version in (1, 2, 3):
            running.applied(
                new_batch_id(version), "updated", version=version, asset_name="Orders", asset_type="table"
            )
        yield running


@pytest.fixture
def globex(api: Gateway) -> str:
    return api.token(tenant="globex", subject="eve")


@pytest.mark.parametrize("path", [ASSETS + "/orders", "/metadata/orders"])
@pytest.mark.parametrize("query", ["", "?history=true", "?as_of=2030-01-01T00:00:00Z"])
def test_an_id_of_another_tenant_leads_nowhere(api: Gateway, globex: str, path: str, query: str) -> None:
    answer = api.call("GET", path + query, as_=globex)
    assert answer.status_code == 404
    assert "acme-only" not in answer.text
    assert api.call("GET", ASSETS + "/orders").status_code == 200


@pytest.mark.parametrize("header", ["x-tenant-id", "tenant", "x-lily-tenant", "lily-tenant"])
def test_a_header_does_not_make_one_another_tenant(api: Gateway, globex: str, header: str) -> None:
    assert api.call("GET", ASSETS + "/orders", as_=globex, headers={header: "acme"}).status_code == 404


def test_a_page_token_of_another_tenant_is_refused(api: Gateway, globex: str) -> None:
    page = api.call("GET", ASSETS + "/orders?history=true&page_size=1").json()
    assert page["next_page_token"]
    api.stored(tenant_id="globex")
    path = f"{ASSETS}/orders?history=true&page_size=1&page_token={page['next_page_token']}"
    problem(api.call("GET", path, as_=globex), 400, "malformed_request")


def test_the_event_of_another_tenant_is_never_visible(api: Gateway, globex: str) -> None:
    event_id = str(new_batch_id(7))
    api.applied(event_id, "updated", version=4)
    api.stored(tenant_id="globex")
    headers = {"lily-after": event_id, "prefer": "wait=1"}
    assert api.call("GET", ASSETS + "/orders", headers=headers).status_code == 200
    problem(api.call("GET", ASSETS + "/orders", as_=globex, headers=headers), 504, "not_visible_yet")


def test_an_idempotency_key_of_another_tenant_tells_nothing(api: Gateway) -> None:
    headers = {"idempotency-key": "k", "prefer": "respond-async"}
    same_name = api.token(tenant="globex")
    first = api.call("POST", ASSETS, json=ORDERS, headers=headers)
    second = api.call("POST", ASSETS, as_=same_name, json=ORDERS, headers=headers)
    assert (first.status_code, second.status_code) == (202, 202)
    assert "idempotent-replayed" not in second.headers
    assert first.headers["lily-event-id"] != second.headers["lily-event-id"]


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_writing_to_an_id_of_another_tenant_touches_only_ones_own(
    api: Gateway, globex: str, method: str
) -> None:
    body = {"json": {"asset_name": "Mine", "asset_type": "table"}} if method != "DELETE" else {}
    headers = {"prefer": "respond-async"}
    api.call(method, ASSETS + "/orders", as_=globex, headers=headers, **body)
    tenants = {dict(message.headers())["ce_tenantid"] for message in api.logged()}
    assert tenants <= {b"globex"}
    assert api.call("GET", ASSETS + "/orders").json()["asset_name"] == "Orders"


def test_a_body_cannot_name_another_tenant(api: Gateway, globex: str) -> None:
    body = ORDERS | {"tenant_id": "acme"}
    answer = api.call("POST", ASSETS, as_=globex, json=body, headers={"prefer": "respond-async"})
    problem(answer, 403, "forbidden")
    assert api.logged() == []


@pytest.mark.parametrize("tenant", ["acme' OR '1'='1", "acme\0", "", "*", "a" * 64, "acme/..", "%"])
def test_a_token_with_a_name_no_tenant_can_have_is_refused(api: Gateway, tenant: str) -> None:
    token = api.token(tenant=tenant, subject=str(uuid4()))
    assert api.call("GET", ASSETS + "/orders", as_=token).status_code == 401
