"""Whatever is wrong with a request, the answer is a problem that helps, and never a 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from rest_kit import ASSETS, ORDERS, Gateway, gateway, problem

from lily.settings import Settings

JSON = {"content-type": "application/json"}


@pytest.fixture
def api(settings: Settings) -> Iterator[Gateway]:
    with gateway(settings) as running:
        yield running


def test_no_body_is_bad_enough_for_a_500(api: Gateway) -> None:
    bodies: list[tuple[bytes, int, str]] = [
        (b"", 400, "malformed_request"),
        (b"{", 400, "malformed_request"),
        (b"\xff\xfe\x00", 400, "malformed_request"),
        (b'{"a":' * 10_000, 400, "malformed_request"),
        (b"[" * 100_000, 400, "malformed_request"),
        (b"[]", 422, "invalid_input"),
        (b"null", 422, "invalid_input"),
        (b"{}", 422, "invalid_input"),
        (b'{"assets": 1}', 422, "invalid_input"),
        (b'{"assets": []}', 422, "invalid_input"),
        (json.dumps({"assets": [ORDERS] * 1001}).encode(), 422, "invalid_input"),
        (json.dumps(ORDERS | {"colour": "red"}).encode(), 422, "invalid_input"),
        (json.dumps(ORDERS | {"asset_name": 7}).encode(), 422, "invalid_input"),
        (json.dumps(ORDERS | {"description": "\x00"}).encode(), 422, "invalid_input"),
        (json.dumps(ORDERS | {"metadata": {"n": float("nan")}}).encode(), 422, "invalid_input"),
        (json.dumps(ORDERS | {"metadata": {"x": "y" * 300_000}}).encode(), 422, "invalid_input"),
        (json.dumps(ORDERS | {"tenant_id": "globex"}).encode(), 403, "forbidden"),
        (b" " * (16 * 1024 * 1024 + 1), 413, "content_too_large"),
    ]
    for body, status, code in bodies:
        problem(api.call("POST", ASSETS, content=body, headers=JSON), status, code)
        answer = api.call("PUT", f"{ASSETS}/orders", content=body, headers=JSON)
        assert answer.status_code in (status, 404), body[:80]
        problem(answer, answer.status_code, answer.json()["code"])


def test_a_body_sent_in_chunks_is_limited_too(api: Gateway) -> None:
    chunks = iter([b" " * (1024 * 1024)] * 17)
    problem(api.call("POST", ASSETS, content=chunks, headers=JSON), 413, "content_too_large")


def test_another_media_type_is_refused(api: Gateway) -> None:
    for media_type in (None, "text/plain", "application/xml", "application/jsonx"):
        headers = {"content-type": media_type} if media_type else {}
        response = api.call("POST", ASSETS, content=json.dumps(ORDERS), headers=headers)
        assert "application/json" in problem(response, 415, "unsupported_media_type")["detail"]


def test_a_media_type_may_have_parameters(api: Gateway) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8", "prefer": "respond-async"}
    assert api.call("POST", ASSETS, content=json.dumps(ORDERS), headers=headers).status_code == 202


def test_an_unknown_path_is_a_problem(api: Gateway) -> None:
    problem(api.call("GET", "/nothing/here"), 404, "not_found")
    problem(api.call("GET", f"{ASSETS}/"), 404, "not_found")


def test_a_method_that_is_not_allowed_says_which_are(api: Gateway) -> None:
    response = api.call("PUT", ASSETS, json=ORDERS)
    assert "POST" in problem(response, 405, "method_not_allowed")["detail"]
    assert set(response.headers["allow"].split(", ")) == {"GET", "POST"}
    both = api.call("TRACE", f"{ASSETS}/x")
    problem(both, 405, "method_not_allowed")
    assert set(both.headers["allow"].split(", ")) == {"DELETE", "GET", "PATCH", "PUT"}


def test_without_a_valid_token_nothing_is_answered(api: Gateway) -> None:
    for header in (None, "", "Basic YTpi", "Bearer", "Bearer x", "Bearer a.b.c", "bearer", "Token x"):
        headers = {} if header is None else {"authorization": header}
        for method, path in [("GET", f"{ASSETS}/x"), ("POST", ASSETS), ("GET", "/metadata/x")]:
            response = api.client.request(method, path, headers=headers)
            problem(response, 401, "unauthenticated")
            assert response.headers["www-authenticate"].startswith("Bearer")


def test_an_unknown_role_may_nothing(api: Gateway) -> None:
    nobody = api.token(role="intern")
    problem(api.call("GET", f"{ASSETS}/x", as_=nobody), 403, "forbidden")
    problem(api.call("POST", ASSETS, as_=nobody, json=ORDERS), 403, "forbidden")


def test_a_bad_idempotency_key_is_refused(api: Gateway) -> None:
    for key in ("", '""', "x" * 256, "ü", '"a"b"', "a b"):
        headers: dict[Any, Any] = {"idempotency-key": key.encode("latin-1")}
        problem(api.call("POST", ASSETS, json=ORDERS, headers=headers), 400, "malformed_request")


def test_every_answer_carries_safe_headers_and_its_trace(api: Gateway) -> None:
    for response in (api.call("GET", "/livez"), api.call("GET", "/nothing"), api.client.get(f"{ASSETS}/x")):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cache-control"]
        assert response.headers["x-request-id"] in response.headers["traceresponse"]
