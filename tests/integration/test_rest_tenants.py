"""A tenant's configuration, sources and quotas, over REST."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest
from rest_kit import ASSETS, ORDERS, Gateway, gateway, problem

from kit.eventually import eventually
from lily.repositories.postgres.usage import count_usage
from lily.settings import Settings

CONFIG = "/lily/v1/tenants/acme/config"
SOURCES = "/lily/v1/tenants/acme/sources"
ASYNC = {"prefer": "respond-async"}


@pytest.fixture
def api(settings: Settings) -> Iterator[Gateway]:
    with gateway(settings) as running:
        yield running


def limit(api: Gateway, **limits: int) -> None:
    """Set limits as `lily tenant config` does, and wait until the gateway has heard of them."""
    api.call("GET", CONFIG)
    for name, value in limits.items():
        api.execute(f"UPDATE tenants SET {name} = %s WHERE tenant_id = 'acme'", value)
    time.sleep(0.5)


def test_a_tenant_comes_into_being_when_it_is_first_heard_of(api: Gateway) -> None:
    document = api.call("GET", CONFIG).json()
    assert (document["tenant_id"], document["isolation"], document["cell"]) == ("acme", "shared", "shared")
    assert document["limits"]["events_per_second"] == api.settings.quota.events_per_second
    assert (document["settings"], document["version"]) == ({}, 1)


def test_an_owner_replaces_the_settings_and_a_stale_version_is_refused(api: Gateway) -> None:
    body = {"settings": {"time_zone": "Europe/Berlin"}}
    answer = api.call("PUT", CONFIG, json=body, headers={"if-match": '"1"'})
    assert (answer.status_code, answer.headers["etag"]) == (200, '"2"')
    assert api.call("GET", CONFIG).json()["settings"] == body["settings"]
    problem(api.call("PUT", CONFIG, json=body, headers={"if-match": '"1"'}), 412, "version_conflict")
    assert api.call("PUT", CONFIG, json={"settings": {}}).json()["version"] == 3


def test_a_viewer_reads_the_configuration_and_does_not_change_it(api: Gateway) -> None:
    viewer = api.token(role="viewer")
    assert api.call("GET", CONFIG, as_=viewer).status_code == 200
    problem(api.call("PUT", CONFIG, as_=viewer, json={"settings": {}}), 403, "forbidden")


@pytest.mark.parametrize(
    "body",
    [{}, [], {"settings": 1}, {"settings": {}, "limits": {"max_assets": 0}}, {"settings": {"a": "\0"}}],
)
def test_a_tenant_cannot_set_its_own_limits_or_what_cannot_be_kept(api: Gateway, body: object) -> None:
    problem(api.call("PUT", CONFIG, json=body), 422, "invalid_input")
    problem(api.call("PUT", CONFIG, json={"settings": {"a": "x" * 70_000}}), 413, "content_too_large")


@pytest.mark.parametrize("path", [CONFIG, SOURCES])
def test_another_tenant_does_not_learn_whether_one_exists(api: Gateway, path: str) -> None:
    stranger = api.token(tenant="globex")
    problem(api.call("GET", path, as_=stranger), 404, "not_found")
    problem(api.call("PUT", CONFIG, as_=stranger, json={"settings": {}}), 404, "not_found")
    problem(api.call("GET", "/lily/v1/tenants/nobody/config", as_=stranger), 404, "not_found")


def test_the_sources_are_those_of_the_tenant_with_counts_and_the_last_event(api: Gateway) -> None:
    for number in range(3):
        api.stored(asset_id=f"a{number}", data_source="warehouse")
    api.stored(asset_id="b", data_source=None)
    api.stored(asset_id="gone", data_source="warehouse", is_deleted=True)
    api.stored(tenant_id="globex", asset_id="c", data_source="secret")
    api.call("GET", CONFIG)
    with psycopg.connect(api.settings.database.url.get_secret_value(), autocommit=True) as connection:
        counted = count_usage(connection, ["acme", "globex"])
        connection.execute("UPDATE tenants SET assets = %s WHERE tenant_id = 'acme'", (counted["acme"][0],))
    sources = api.call("GET", SOURCES).json()["sources"]
    assert [(s["data_source"], s["assets"]) for s in sources] == [("warehouse", 3), ("", 1)]
    assert all(s["bytes"] > 0 and s["last_event"].startswith("2026-01-01") for s in sources)
    eventually(lambda: api.call("GET", CONFIG).json()["usage"]["assets"] == 4)


def test_too_many_requests_are_answered_with_429_and_when_to_come_back(api: Gateway) -> None:
    limit(api, requests_per_second=3)
    answers = [api.call("GET", f"{ASSETS}/orders") for _ in range(12)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert 3 <= len(answers) - len(refused) <= 8
    problem(refused[0], 429, "quota_exceeded")
    assert int(refused[0].headers["retry-after"]) >= 1
    assert refused[0].headers["ratelimit-policy"] == '"requests";q=3;w=1'
    assert refused[0].headers["ratelimit"] == '"requests";r=0;t=1'
    eventually(lambda: api.call("GET", CONFIG).headers["ratelimit"].startswith('"requests";r='), 3)


def test_a_flood_of_a_known_caller_is_refused_before_it_is_looked_at(api: Gateway) -> None:
    limit(api, requests_per_second=3)
    known = api.token()
    answers = [api.call("GET", f"{ASSETS}/orders", as_=known) for _ in range(10)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert 3 <= len(answers) - len(refused) <= 8
    unlooked = api.call("POST", "/lily/v1/no/such/route", as_=known, content=b"[" * 100_000)
    problem(unlooked, 429, "quota_exceeded")
    assert unlooked.headers["ratelimit"] == '"requests";r=0;t=1'
    assert api.call("GET", "/lily/v1/auth/validate", as_=known).status_code == 200
    assert api.call("GET", "/readyz", as_=known).status_code != 429
    assert 'route="over quota"' in api.client.get("/metrics").text


def test_a_revoked_token_is_refused_as_such_however_many_requests_there_are(api: Gateway) -> None:
    limit(api, requests_per_second=3)
    known = api.token()
    assert 429 in [api.call("GET", f"{ASSETS}/orders", as_=known).status_code for _ in range(10)]
    assert api.call("POST", "/lily/v1/auth/logout", as_=known).status_code == 204
    problem(api.call("GET", f"{ASSETS}/orders", as_=known), 401, "unauthenticated")


def test_one_tenants_quota_is_not_anothers(api: Gateway) -> None:
    limit(api, requests_per_second=1)
    stranger = api.token(tenant="globex")
    assert 429 in [api.call("GET", CONFIG).status_code for _ in range(5)]
    assert {api.call("GET", f"{ASSETS}/x", as_=stranger).status_code for _ in range(20)} == {404}


def test_events_over_the_rate_are_refused_and_not_recorded(api: Gateway) -> None:
    limit(api, events_per_second=5)
    body = {"assets": [ORDERS | {"asset_id": f"a{n}"} for n in range(20)]}
    answers = [api.call("POST", ASSETS, json=body, headers=ASYNC) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [202, 429, 429]
    problem(answers[1], 429, "quota_exceeded")
    assert 2 <= int(answers[1].headers["retry-after"]) <= 5
    assert answers[1].headers["ratelimit-policy"] == '"events";q=5;w=1'
    assert len(api.logged()) == 20
    assert api.call("GET", f"{ASSETS}/orders").status_code == 404


@pytest.mark.parametrize(("limit_name", "usage"), [("max_assets", "assets"), ("max_bytes", "bytes")])
def test_a_tenant_that_is_full_can_only_purge(api: Gateway, limit_name: str, usage: str) -> None:
    api.stored()
    limit(api, **{limit_name: 100, usage: 100})
    answer = api.call("POST", ASSETS, json=ORDERS, headers=ASYNC)
    problem(answer, 429, "quota_exceeded")
    assert int(answer.headers["retry-after"]) == 30
    assert api.call("DELETE", f"{ASSETS}/orders?purge=true", headers=ASYNC).status_code == 202


def test_two_gateways_grant_a_tenant_little_more_than_one_would(api: Gateway) -> None:
    limit(api, requests_per_second=20)
    with gateway(api.settings) as other:
        other.call("GET", CONFIG)
        granted, until = 0, time.monotonic() + 5
        while time.monotonic() < until:
            granted += sum(g.call("GET", f"{ASSETS}/x").status_code == 404 for g in (api, other))
    assert 70 <= granted <= 20 * 5 + 2 * 20 + 20


def test_a_quota_given_to_two_gateways_follows_the_demand(api: Gateway) -> None:
    limit(api, requests_per_second=20)
    with gateway(api.settings):
        time.sleep(1.5)
        granted, until = 0, time.monotonic() + 4
        while time.monotonic() < until:
            granted += api.call("GET", f"{ASSETS}/x").status_code == 404
    assert granted >= 60  # half of the quota each would be 40 and a second of savings


def test_writes_stop_while_a_tenant_moves_and_reads_go_on(api: Gateway) -> None:
    api.stored()
    limit(api)
    api.execute("UPDATE tenants SET state = 'moving' WHERE tenant_id = 'acme'")
    eventually(lambda: api.call("POST", ASSETS, json=ORDERS, headers=ASYNC).status_code == 503)
    answer = api.call("POST", ASSETS, json=ORDERS, headers=ASYNC)
    problem(answer, 503, "unavailable")
    assert answer.headers["retry-after"]
    assert api.call("GET", f"{ASSETS}/orders").status_code == 200
    paused = "SELECT count(*) FROM gateway_workers WHERE 'acme' = ANY(paused)"

    def is_told() -> bool:
        with psycopg.connect(api.settings.database.url.get_secret_value()) as connection:
            return connection.execute(paused.encode()).fetchone() == (1,)

    eventually(is_told)
    api.execute("UPDATE tenants SET state = 'active' WHERE tenant_id = 'acme'")
    eventually(lambda: api.call("POST", ASSETS, json=ORDERS, headers=ASYNC).status_code == 202)
