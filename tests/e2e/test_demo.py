"""The five-minute tour of README, step by step, on a whole installation with its demo."""

from __future__ import annotations

import json
from typing import Any

import httpx

from kit.eventually import eventually
from kit.platform import Platform

TENANT = "demo"


def call(platform: Platform, method: str, path: str, **options: Any) -> Any:
    headers = {"authorization": f"Bearer {platform.token(TENANT)}"}
    answer: httpx.Response = platform.client.request(method, f"/lily/v1{path}", headers=headers, **options)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else {}


def asset(platform: Platform, name: str) -> str:
    return platform.lily("demo", "asset", name).strip().splitlines()[-1]


def contacts(platform: Platform) -> set[str]:
    """What the analyst sees, two hops downstream of the customers' addresses."""
    shown = platform.lily("demo", "query", "SELECT contact FROM top_customers").split()
    return set(shown[1:])


def test_the_tour_of_the_demo(platform: Platform) -> None:
    platform.lily("up", "--demo")
    platform.lily("up", "--demo")  # a second time changes nothing
    [connector] = [
        each
        for each in call(platform, "GET", f"/connectors/{TENANT}")["connectors"]
        if each["type"] == "postgres"
    ]
    jobs = call(platform, "GET", f"/connectors/{TENANT}/{connector['connector_id']}/jobs")["jobs"]
    assert [job["state"] for job in jobs] == ["succeeded", "succeeded"]
    assert jobs[0]["counts"].get("sent", 0) == 0

    email, contact = asset(platform, "customers.email"), asset(platform, "top_customers.contact")
    assert call(platform, "GET", f"/metadata/{email}")["asset_name"] == "email"
    below = json.dumps(call(platform, "GET", f"/metadata/lineage/{email}?direction=downstream"))
    assert contact in below
    assert "sales-dashboard.Contact" in below

    json.loads(platform.lily("demo", "incident"))
    orders = asset(platform, "orders")
    found = eventually(lambda: call(platform, "GET", f"/incidents?asset_id={orders}")["incidents"])
    assert len(found) == 1
    upstream = eventually(lambda: call(platform, "GET", "/metadata/sales-dashboard")["affected_upstream"])
    assert {each["incident_id"] for each in upstream} >= {found[0]["incident_id"]}

    open_addresses = {"ada@example.com", "grace@example.com", "emmy@example.com"}
    assert contacts(platform) == open_addresses
    call(
        platform,
        "POST",
        "/metadata/governance/classification",
        json={"asset_id": email, "tags": ["PII"]},
    )
    assert eventually(lambda: not contacts(platform) & open_addresses, 30)
    call(platform, "DELETE", f"/metadata/governance/classification/{email}?tag=PII")
    assert eventually(lambda: contacts(platform) == open_addresses, 30)
