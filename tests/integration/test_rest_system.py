"""The platform tells how it is, and parts that are away are said to be away."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pydantic import SecretStr
from rest_kit import ASSETS, ORDERS, Gateway, gateway, problem

from kit.eventually import eventually
from lily.settings import Settings


@pytest.fixture
def api(settings: Settings) -> Iterator[Gateway]:
    with gateway(settings) as running:
        yield running


def beat(api: Gateway, status: str = "healthy", age: str = "0 s") -> None:
    api.execute("DELETE FROM heartbeats")
    api.execute(
        "INSERT INTO heartbeats VALUES ('streams', %s, '{}', clock_timestamp() - %s::interval)", status, age
    )


def test_a_platform_with_all_parts_is_healthy(api: Gateway) -> None:
    beat(api)
    response = api.client.get("/lily/v1/system/health")
    assert response.status_code == 200
    document = response.json()
    assert document["status"] == "healthy"
    assert {name: part["status"] for name, part in document["components"].items()} == dict.fromkeys(
        ("gateway", "postgres", "kafka", "streams"), "healthy"
    )
    lags = {lane: at["lag"] for lane, at in document["lanes"].items()}
    assert lags == {"structural": 0, "leaf": 0, "lineage": 0}


@pytest.mark.parametrize(("status", "age"), [("healthy", "16 s"), ("unhealthy", "0 s")])
def test_a_pipeline_that_is_silent_or_unwell_is_unhealthy(api: Gateway, status: str, age: str) -> None:
    beat(api, status, age)
    response = api.client.get("/lily/v1/system/health")
    assert (response.status_code, response.json()["status"]) == (503, "unhealthy")
    assert api.client.get("/readyz").status_code == 200


def test_the_lag_of_a_lane_is_what_is_on_the_log_and_not_applied(api: Gateway) -> None:
    beat(api)
    assets = [ORDERS | {"asset_id": str(n), "asset_type": "column"} for n in range(10)]
    api.call("POST", ASSETS, json={"assets": assets}, headers={"prefer": "respond-async"})
    api.execute(
        "INSERT INTO stream_positions (query, batch_id, offsets, events, dead) "
        "VALUES ('assets-leaf', 1, '{\"0\": 1}', 1, 0)"
    )
    lags = api.client.get("/lily/v1/system/health").json()["lanes"]
    assert lags["structural"]["lag"] == 0
    assert lags["leaf"]["lag"] in (9, 10)  # partition 0 may have got none of the ten
    assert b'lily_lane_lag_events{lane="leaf"}' in api.client.get("/metrics").content


def test_metrics_count_requests_by_route_and_events_by_lane(api: Gateway) -> None:
    api.call("GET", f"{ASSETS}/x")
    api.call("POST", ASSETS, json=ORDERS, headers={"prefer": "respond-async"})
    text = api.client.get("/metrics").text
    assert (
        'lily_http_requests_total{method="GET",route="/lily/v1/metadata/{asset_id:path}",status="404"}'
        in text
    )
    assert 'lily_events_accepted_total{lane="structural"}' in text
    assert "lily_http_request_seconds_bucket" in text


def test_without_kafka_a_write_is_refused_and_a_read_is_served(settings: Settings) -> None:
    kafka = settings.kafka.model_copy(update={"bootstrap_servers": "127.0.0.1:9"})
    with gateway(settings.model_copy(update={"kafka": kafka})) as api:
        api.stored()
        started = time.monotonic()
        response = api.call("POST", ASSETS, json=ORDERS, headers={"prefer": "respond-async"})
        problem(response, 503, "unavailable")
        assert response.headers["retry-after"]
        assert time.monotonic() - started < 8
        assert api.call("GET", f"{ASSETS}/orders").status_code == 200
        health = api.client.get("/lily/v1/system/health")
        assert (health.status_code, health.json()["components"]["kafka"]["status"]) == (503, "unhealthy")


def test_without_postgres_nobody_is_known_to_be_allowed_and_that_is_said_in_time(
    settings: Settings,
) -> None:
    url = SecretStr("postgresql://nobody:nothing@127.0.0.1:9/none")
    nowhere = settings.database.model_copy(update={"url": url})
    with gateway(settings.model_copy(update={"database": nowhere})) as api:
        started = time.monotonic()
        response = api.call("GET", f"{ASSETS}/orders")
        assert "PostgreSQL" in problem(response, 503, "unavailable")["detail"]
        assert response.headers["retry-after"]
        assert time.monotonic() - started < 4
        refused = api.call("POST", ASSETS, json=ORDERS, headers={"prefer": "respond-async"})
        problem(refused, 503, "unavailable")
        health = api.client.get("/lily/v1/system/health")
        assert (health.status_code, health.json()["components"]["postgres"]["status"]) == (503, "unhealthy")
        assert api.client.get("/readyz").status_code == 503
        assert api.client.get("/livez").status_code == 200


def test_connections_that_were_cut_are_replaced(api: Gateway) -> None:
    api.stored()
    api.call("GET", f"{ASSETS}/orders")
    api.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert api.call("GET", f"{ASSETS}/orders").status_code == 200
    headers = {"prefer": "respond-async", "idempotency-key": "k"}
    eventually(lambda: api.call("POST", ASSETS, json=ORDERS, headers=headers).status_code == 202)


def test_version_is_told(api: Gateway) -> None:
    assert api.client.get("/version").json()["version"]
