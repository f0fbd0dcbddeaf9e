"""Attacks that worked on others, on the running gateway; each test fails when its defence is taken away."""

from __future__ import annotations

import gzip
import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from rest_kit import ASSETS, ORDERS, Gateway, gateway, problem
from test_contract import CONTRACT

from lily.settings import GatewaySettings, Settings

ORIGIN = "https://console.example"


@pytest.fixture(scope="module")
def running(shared_settings: Settings) -> Iterator[Gateway]:
    listed = GatewaySettings(wait_seconds=0.2, cors_origins=ORIGIN)
    with gateway(shared_settings.model_copy(update={"gateway": listed})) as running:
        running.stored()
        yield running


def with_json_body() -> list[Any]:
    """Every operation that reads JSON."""
    found = [result.ok() for result in schemathesis.openapi.from_path(CONTRACT).get_all_operations()]
    return [each for each in found if each.definition.raw.get("requestBody")]


def concrete(operation: Any) -> str:
    path = str(operation.path)
    for part in path.split("/"):
        if part.startswith("{"):
            path = path.replace(part, "orders")
    return path


@pytest.mark.parametrize("operation", with_json_body(), ids=lambda operation: operation.label)
def test_json_nested_ten_thousand_deep_is_refused_wherever_json_is_read(
    operation: Any, running: Gateway
) -> None:
    bombs = (b"[" * 10_000 + b"]" * 10_000, b'{"metadata":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001)
    for bomb in bombs:
        started = time.perf_counter()
        answer = running.call(
            operation.method, concrete(operation), content=bomb, headers={"content-type": "application/json"}
        )
        assert 400 <= answer.status_code < 500, answer.text[:300]
        assert time.perf_counter() - started < 2


def test_a_compressed_bomb_is_not_inflated(running: Gateway) -> None:
    bomb = gzip.compress(b'{"asset_id":"' + b"a" * 50_000_000 + b'"}')
    assert len(bomb) < 100_000
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    answer = running.call("POST", ASSETS, content=bomb, headers=headers)
    assert answer.status_code in (400, 415), answer.text[:300]


INJECTIONS = [
    "' OR '1'='1",
    "'; DROP TABLE audit; --",
    "orders' UNION SELECT 1, 'table', '{}' --",
    "%(tenant_id)s",
    "$1",
    "\\'; SELECT pg_sleep(5); --",
]


@pytest.mark.parametrize("injection", INJECTIONS)
def test_text_from_callers_is_never_sql(running: Gateway, injection: str) -> None:
    started = time.perf_counter()
    for path, parameters in (
        (f"{ASSETS}/{injection}", {}),
        (f"{ASSETS}/orders", {"history": "true", "page_token": injection}),
        ("/lily/v1/audit", {"actor": injection, "resource_id": injection, "trace_id": injection}),
        (f"/lily/v1/metadata/audit/{injection}", {"action": injection}),
        ("/lily/v1/audit/export", {"resource_kind": injection}),
    ):
        answer = running.call("GET", path, params=parameters)
        assert answer.status_code in (200, 400, 404), answer.text[:300]
        assert "Orders" not in answer.text
    body = {"tenant_id": "acme", "username": injection, "password": injection}
    assert running.client.post("/lily/v1/auth/login", json=body).status_code in (401, 429)
    assert time.perf_counter() - started < 4
    assert running.fetch("SELECT count(*) FROM audit")


@pytest.mark.parametrize(
    "path",
    [
        "/livez/../lily/v1/metadata/orders",
        "/livez/..%2flily/v1/metadata/orders",
        "/livez%2f..%2flily%2fv1%2fmetadata%2forders",
        "/livez;/lily/v1/metadata/orders",
        "//lily/v1/metadata/orders",
        "/lily/v1//metadata/orders",
        "/lily/v1;x/metadata/orders",
        "/lily/v1/metadata;x/orders",
        "/lily/v1/auth/login/../../metadata/orders",
        "/lily/v1/system/health/..%2f..%2fmetadata/orders",
        "/LILY/V1/METADATA/orders",
        "/lily/v1/metadata/orders?/livez",
        "/lily/v1/metadata/orders%3f/livez",
        "/./lily/v1/metadata/orders",
    ],
)
def test_no_spelling_of_a_path_gets_around_authentication(running: Gateway, path: str) -> None:
    url = running.client.base_url
    connection = http.client.HTTPConnection(url.host, url.port or 80, timeout=10)
    connection.request("GET", path)  # as spelled: a client that knows better would tidy it up
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status in (400, 401, 404), text[:300]
    assert "Orders" not in text


def test_no_credential_is_handed_out_before_the_caller_is_checked(running: Gateway) -> None:
    wrong = {"tenant_id": "acme", "username": "ada", "password": "wrong"}
    attempts = (
        running.client.post("/lily/v1/auth/login", json=wrong),
        running.client.post("/lily/v1/auth/login", json=wrong | {"cookie": True}),
        running.client.post("/lily/v1/auth/login", json=wrong | {"scope": "everything"}),
        running.client.post("/lily/v1/auth/refresh", json={"refresh_token": "forged"}),
        running.client.post("/lily/v1/api-keys", json={"name": "robot", "roles": ["owner"]}),
        running.call(
            "POST",
            "/lily/v1/api-keys",
            as_=running.token(role="viewer"),
            json={"name": "robot", "roles": ["owner"]},
        ),
    )
    for answer in attempts:
        assert 400 <= answer.status_code < 500
        assert "set-cookie" not in answer.headers
        assert not {"access_token", "refresh_token", "api_key", "csrf_token"} & answer.json().keys()


def test_every_answer_has_safe_headers_and_is_not_cached(running: Gateway) -> None:
    answers = (
        running.client.get("/livez"),
        running.client.get("/nowhere"),
        running.client.get(f"{ASSETS}/orders"),
        running.call("GET", f"{ASSETS}/nothing"),
        running.call("GET", "/lily/v1/audit/export"),
        running.call("POST", ASSETS, json=ORDERS, headers={"prefer": "respond-async"}),
    )
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert answer.headers["cache-control"] == "no-store"
        assert "strict-transport-security" not in answer.headers, "only over TLS"
        assert "server" not in answer.headers or "/" not in answer.headers["server"]
    private = running.call("GET", f"{ASSETS}/orders").headers["cache-control"]
    assert private == "private, no-cache", "kept by the caller alone, and asked for again by its version"


def preflight(running: Gateway, origin: str) -> Any:
    asked = {"origin": origin, "access-control-request-method": "PUT"}
    asked["access-control-request-headers"] = "authorization"
    return running.client.options(f"{ASSETS}/orders", headers=asked)


def test_pages_of_a_listed_origin_may_call_and_no_others(running: Gateway) -> None:
    allowed = preflight(running, ORIGIN)
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == ORIGIN
    assert "access-control-allow-credentials" not in allowed.headers
    for other in ("https://evil.example", "https://console.example.evil", "http://console.example", "null"):
        refused = preflight(running, other)
        assert "access-control-allow-origin" not in refused.headers
        read = running.call("GET", f"{ASSETS}/orders", headers={"origin": other})
        assert "access-control-allow-origin" not in read.headers


def test_a_body_that_lies_about_its_length_is_cut_off(running: Gateway) -> None:
    answer = running.call(
        "POST", ASSETS, content=b" " * (17 * 1024 * 1024), headers={"content-type": "application/json"}
    )
    problem(answer, 413, "content_too_large")


@pytest.mark.parametrize("size", [1_000, 100_000, 1_000_000])
def test_who_is_refused_before_all_is_read_is_heard_again_on_the_same_connection(
    running: Gateway, size: int
) -> None:
    caller = http.client.HTTPConnection(running.client.base_url.host, running.client.base_url.port or 0)
    headers = {"content-type": "application/json", "authorization": "Bearer nobody"}
    for _ in range(20):
        caller.request("POST", ASSETS, b" " * size, headers)
        answer = caller.getresponse()
        assert (answer.status, answer.getheader("connection")) == (401, None)
        answer.read()
        connected = caller.sock
        caller.request("GET", "/livez")
        assert caller.getresponse().read()
        assert caller.sock is connected
    caller.close()


@pytest.mark.parametrize(
    "declared",
    [
        {"content-length": "99999999"},
        {"content-length": "9", "expect": "100-continue"},
        {"transfer-encoding": "chunked"},
    ],
)
def test_who_is_refused_and_does_not_send_all_is_told_that_the_connection_ends(
    running: Gateway, declared: dict[str, str]
) -> None:
    caller = http.client.HTTPConnection(running.client.base_url.host, running.client.base_url.port or 0)
    caller.putrequest("POST", ASSETS)
    for name, value in declared.items():
        caller.putheader(name, value)
    caller.endheaders()
    answer = caller.getresponse()
    assert (answer.status, answer.getheader("connection")) == (401, "close")
    caller.close()


def test_who_is_refused_and_sends_the_rest_late_is_heard_again(running: Gateway) -> None:
    caller = http.client.HTTPConnection(running.client.base_url.host, running.client.base_url.port or 0)
    caller.putrequest("POST", ASSETS)
    caller.putheader("content-length", "9")
    caller.endheaders()
    answer = caller.getresponse()
    assert (answer.status, answer.getheader("connection")) == (401, None)
    answer.read()
    caller.send(b" " * 9)
    caller.request("GET", "/livez")
    assert caller.getresponse().status == 200
    caller.close()


@pytest.mark.parametrize("piece", [b"a" * 10_000, b"\r\nx: a" * 1000], ids=["one header", "many headers"])
def test_a_head_without_end_is_not_kept_in_memory(running: Gateway, piece: bytes) -> None:
    with raw_connection(running) as caller:
        caller.sendall(b"GET /livez HTTP/1.1\r\nhost: ")
        with pytest.raises(ConnectionError):
            caller.sendall(piece * 1000)


def test_who_does_not_say_what_they_want_is_not_waited_for(
    running: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lily.apps.bounds._PATIENCE_SECONDS", 1.0)
    for beginning in (b"", b"GET /livez HTTP/1.1\r\nhost: ", b"GET /livez HTTP/1.1\r\nhost: lily\r\n\r\nGET"):
        with raw_connection(running) as caller:
            caller.sendall(beginning)
            assert heard(caller).startswith(b"HTTP/1.1 200 ") == (b"\r\n\r\n" in beginning)


@pytest.mark.parametrize("rest", [1, 9])
def test_who_is_refused_and_falls_silent_after_the_answer_is_not_waited_for(
    running: Gateway, monkeypatch: pytest.MonkeyPatch, rest: int
) -> None:
    monkeypatch.setattr("lily.apps.bounds._PATIENCE_SECONDS", 1.0)
    with raw_connection(running) as caller:
        caller.sendall(b"POST /lily/v1/metadata HTTP/1.1\r\nhost: lily\r\ncontent-length: 9\r\n\r\n")
        assert caller.recv(10_000).startswith(b"HTTP/1.1 401 ")
        caller.sendall(b" " * rest)
        assert heard(caller) == b""


def test_a_long_head_is_heard_and_a_longer_one_refused(running: Gateway) -> None:
    for size, status in ((60_000, b"200"), (500_000, b"400")):
        with raw_connection(running) as caller:
            caller.sendall(b"GET /livez HTTP/1.1\r\nhost: lily\r\nconnection: close\r\nx: ")
            with suppress(ConnectionError):  # refused before all was sent
                for _ in range(size // 10_000):
                    time.sleep(0.01)  # as many pieces
                    caller.sendall(b"a" * 10_000)
                caller.sendall(b"\r\n\r\n")
            assert heard(caller).startswith(b"HTTP/1.1 " + status)


def test_what_follows_a_body_in_chunks_is_no_header_of_the_request(running: Gateway) -> None:
    token = running.token().encode()
    head = b"POST /lily/v1/metadata HTTP/1.1\r\nhost: lily\r\ncontent-type: application/json\r\n"
    head += b"transfer-encoding: chunked\r\n"
    late = b"2\r\n{}\r\n0\r\nauthorization: Bearer " + token + b"\r\n\r\n"
    with raw_connection(running) as caller:
        caller.sendall(head + b"connection: close\r\n\r\n" + late)
        assert heard(caller).startswith(b"HTTP/1.1 401 ")
    endless = b"0\r\nx: " + b"a" * 10_000_000
    with raw_connection(running) as caller, pytest.raises(ConnectionError):
        caller.sendall(head + b"authorization: Bearer " + token + b"\r\n\r\n" + endless)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_body_is_read_though_another_protocol_is_offered(running: Gateway, is_late: bool) -> None:
    """As Java's client does with its first request."""
    body = b'{"asset_id": 7} GET /livez HTTP/1.1'
    head = b"POST /lily/v1/metadata HTTP/1.1\r\nhost: lily\r\nconnection: Upgrade, HTTP2-Settings, close\r\n"
    head += b"upgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\ncontent-type: application/json\r\n"
    head += b"authorization: Bearer %s\r\ncontent-length: 15\r\n\r\n" % running.token().encode()
    with raw_connection(running) as caller:
        caller.sendall(head + (b"" if is_late else body[:15]))
        if is_late:
            time.sleep(0.1)
            caller.sendall(body[:15])
        answer = heard(caller)
    assert answer.startswith(b"HTTP/1.1 422 "), answer
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_tunnel_is_refused(running: Gateway) -> None:
    with raw_connection(running) as caller:
        caller.sendall(b"CONNECT lily:80 HTTP/1.1\r\nhost: lily:80\r\n\r\n")
        assert heard(caller).startswith(b"HTTP/1.1 400 ")


def test_many_requests_at_once_are_not_all_kept(running: Gateway) -> None:
    with raw_connection(running) as caller:
        caller.sendall(b"GET /livez HTTP/1.1\r\n\r\n" * 5)
        answer = b""
        while answer.count(b"HTTP/1.1 200 ") < 5:
            answer += caller.recv(10_000)
        with suppress(ConnectionError):  # it may end before all was sent
            caller.sendall(b"GET /livez HTTP/1.1\r\n\r\n" * 10_000)
        assert heard(caller).count(b"HTTP/1.1 200 ") < 100


@pytest.mark.parametrize("spoiling", ["content-length: 1", "x: " + "a" * 10_000])
def test_the_head_of_a_websocket_that_cannot_be_read_is_answered(running: Gateway, spoiling: str) -> None:
    head = "GET /ws/notifications HTTP/1.1\r\nhost: lily\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    head += "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    with raw_connection(running) as caller:
        caller.sendall(f"{head}{spoiling}\r\n\r\n".encode())
        assert b"101" not in heard(caller)[:20]


def test_an_id_that_looks_like_two_is_refused(running: Gateway) -> None:
    for path in ("lineage/%1Forders", "lineage/%1Forders/impact", "%1Forders"):
        problem(running.call("GET", f"{ASSETS}/{path}"), 400, "malformed_request")


def test_no_header_tells_what_the_server_is(running: Gateway) -> None:
    assert "server" not in running.client.get("/livez").headers


def raw_connection(running: Gateway) -> socket.socket:
    url = running.client.base_url
    return socket.create_connection((url.host, url.port or 80), timeout=10)


def heard(caller: socket.socket) -> bytes:
    """All that comes until the connection ends."""
    found = b""
    with suppress(ConnectionError):
        while more := caller.recv(10_000):
            found += more
    return found
