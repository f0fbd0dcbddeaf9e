"""Who did what is in the audit before they are answered: denials, writes, administration, tagged reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from rest_kit import ASSETS, ORDERS, Gateway, gateway

from kit.eventually import eventually
from lily.access.notebooks import Notebook
from lily.domain.audit import INSTALLATION
from lily.settings import AuditSettings, Settings

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}


@pytest.fixture(scope="module")
def running(shared_settings: Settings) -> Iterator[Gateway]:
    audit = AuditSettings(key=shared_settings.audit.key, proxies="127.0.0.0/8")
    with gateway(shared_settings.model_copy(update={"audit": audit})) as running:
        yield running


class Tenant:
    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.name = f"tenant-{uuid4().hex[:8]}"

    def call(self, method: str, path: str, role: str, **options: Any) -> Any:
        headers = options.pop("headers", {}) | TRACEPARENT | {"x-forwarded-for": "192.0.2.7"}
        token = self.gateway.token(self.name, role, "ada")
        return self.gateway.call(method, path, as_=token, headers=headers, **options)

    def entries(self, tenant: str = "") -> list[dict[str, Any]]:
        """What the audit has, without that it was asked."""
        token = self.gateway.token(tenant or self.name, "auditor", "eve")
        page = self.gateway.call("GET", "/lily/v1/audit", as_=token).json()
        return [entry for entry in page["entries"] if entry["actor"] != "eve"]

    def entry(self) -> dict[str, Any]:
        """The one entry there is, once it has arrived."""
        (entry,) = eventually(self.entries)
        return entry


@pytest.fixture
def tenant(running: Gateway) -> Tenant:
    return Tenant(running)


def test_a_denied_write_says_who_as_whom_from_where_what_why_and_under_which_trace(tenant: Tenant) -> None:
    tenant.gateway.stored(tenant_id=tenant.name)
    assert tenant.call("DELETE", f"{ASSETS}/orders", "editor").status_code == 403
    entry = tenant.entry()
    assert {
        "actor": "ada",
        "acting_as": "editor",
        "address": "192.0.2.7",
        "action": "delete",
        "resource_kind": "asset",
        "allowed": False,
        "reason": "no policy allows it",
        "trace_id": TRACE,
    }.items() <= entry.items()


def test_a_read_of_a_tagged_asset_is_noted_with_the_policy_that_allowed_it(tenant: Tenant) -> None:
    tenant.gateway.stored(tenant_id=tenant.name, source_tags=["pii"])
    assert tenant.call("GET", f"{ASSETS}/orders", "viewer").status_code == 200
    entry = tenant.entry()
    assert (entry["action"], entry["resource_id"], entry["allowed"]) == ("read", "orders", True)
    assert entry["reason"] == "default:viewer:asset"


def test_a_read_of_an_asset_without_tags_is_not_noted(tenant: Tenant) -> None:
    tenant.gateway.stored(tenant_id=tenant.name)
    assert tenant.call("GET", f"{ASSETS}/orders", "viewer").status_code == 200
    tenant.gateway.stored(tenant_id=tenant.name, asset_id="tagged", user_tags=["pii"])
    assert tenant.call("GET", f"{ASSETS}/tagged", "viewer").status_code == 200
    assert tenant.entry()["resource_id"] == "tagged"


def test_a_list_notes_the_tagged_assets_it_shows(tenant: Tenant) -> None:
    tenant.gateway.stored(tenant_id=tenant.name, asset_id="plain")
    tenant.gateway.stored(tenant_id=tenant.name, asset_id="tagged", user_tags=["pii"])
    assert tenant.call("GET", ASSETS, "viewer").status_code == 200
    entry = tenant.entry()
    assert (entry["action"], entry["resource_id"], entry["reason"]) == ("read", "tagged", "listed")


def test_an_accepted_write_is_noted_before_it_is_answered(tenant: Tenant) -> None:
    answer = tenant.call("POST", ASSETS, "editor", json=ORDERS, headers={"prefer": "respond-async"})
    assert answer.status_code == 202
    entry = tenant.entry()
    assert (entry["action"], entry["resource_id"], entry["allowed"]) == ("write", "orders", True)


def test_a_batch_is_one_entry(tenant: Tenant) -> None:
    assets = [ORDERS | {"asset_id": f"asset-{number}"} for number in range(20)]
    answer = tenant.call(
        "POST", ASSETS, "editor", json={"assets": assets}, headers={"prefer": "respond-async"}
    )
    assert answer.status_code == 202
    entry = tenant.entry()
    assert (entry["action"], entry["resource_id"]) == ("write", "")
    assert entry["reason"].startswith("20 assets")


def test_reading_the_audit_is_noted_itself(tenant: Tenant) -> None:
    assert tenant.call("GET", "/lily/v1/audit", "auditor").status_code == 200
    entry = tenant.entry()
    assert (entry["action"], entry["resource_kind"], entry["allowed"]) == ("audit", "audit", True)


def test_administration_is_noted(tenant: Tenant) -> None:
    body = {"name": "robot", "roles": ["editor"]}
    assert tenant.call("POST", "/lily/v1/api-keys", "editor", json=body).status_code == 201
    entry = tenant.entry()
    assert (entry["actor"], entry["action"], entry["resource_kind"]) == ("ada", "create", "api_key")


def test_a_change_is_noted_even_by_a_route_that_forgets_to(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget(_self: Notebook, *_: Any) -> None:
        """Nothing is noted by the route."""

    write = Notebook.write
    monkeypatch.setattr(
        Notebook, "write", lambda self, *what: (forget if what[0] == "create" else write)(self, *what)
    )
    body = {"name": "robot", "roles": ["editor"]}
    assert tenant.call("POST", "/lily/v1/api-keys", "editor", json=body).status_code == 201
    entry = tenant.entry()
    assert (entry["actor"], entry["action"], entry["allowed"]) == ("ada", "post", True)
    assert (entry["resource_kind"], entry["resource_id"]) == ("route", "/lily/v1/api-keys")


def test_strangers_are_noted_in_the_installation_s_chain_and_a_flood_is_counted(tenant: Tenant) -> None:
    for _ in range(120):
        forged = {"authorization": "Bearer forged"} | TRACEPARENT
        assert tenant.gateway.client.get(f"{ASSETS}/orders", headers=forged).status_code == 401

    def noted() -> list[Any]:
        query = "SELECT count(*) FROM audit WHERE tenant_id = %s AND NOT allowed AND trace_id = %s"
        return tenant.gateway.fetch(query, INSTALLATION, TRACE)

    eventually(lambda: noted()[0][0] >= 50)
    assert noted()[0][0] < 120


def test_a_full_disk_refuses_the_act_rather_than_the_audit(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lily.access.audit_spools import Spool
    from lily.domain.errors import Unavailable

    def full(_self: Spool, _line: bytes) -> None:
        raise Unavailable("the audit cannot be written (no space left); nothing was done")

    tenant.gateway.stored(tenant_id=tenant.name, source_tags=["pii"])
    monkeypatch.setattr(Spool, "append", full)
    assert tenant.call("GET", f"{ASSETS}/orders", "viewer").status_code == 503
    answer = tenant.call("POST", ASSETS, "editor", json=ORDERS, headers={"prefer": "respond-async"})
    assert answer.status_code == 503
