"""Who did what is in the audit before they are answered: denials, writes, administration, tagged reads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import grpc
import pytest
from rest_kit import ASSETS, ORDERS, Gateway, gateway, grpc_ask, with_grpc

from kit.eventually import eventually
from lily.access.notebooks import Notebook
from lily.domain.audit import INSTALLATION
from lily.log.topics import Topic
from lily.serving.grpc import lineage_pb2, metadata_pb2
from lily.settings import AuditSettings, Settings

lineage: Any = lineage_pb2
metadata: Any = metadata_pb2

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}


@pytest.fixture(scope="module")
def running(shared_settings: Settings) -> Iterator[Gateway]:
    audit = AuditSettings(key=shared_settings.audit.key, proxies="127.0.0.0/8")
    with gateway(with_grpc(shared_settings.model_copy(update={"audit": audit}))) as running:
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


def over_grpc(tenant: Tenant, method: str, request: Any, gives: Any, role: str = "viewer") -> Any:
    said = {"traceparent": TRACEPARENT["traceparent"], "x_forwarded_for": "192.0.2.7"}
    return grpc_ask(
        tenant.gateway, method, request, gives, tenant.gateway.token(tenant.name, role, "ada"), **said
    )


def test_a_call_over_grpc_is_noted_with_its_trace_and_from_behind_a_proxy(tenant: Tenant) -> None:
    tenant.gateway.stored(tenant_id=tenant.name, source_tags=["pii"])
    request = metadata.GetMetadataRequest(asset_id="orders")
    over_grpc(tenant, "metadata.MetadataService/GetMetadata", request, metadata.GetMetadataResponse)
    entry = tenant.entry()
    assert (entry["action"], entry["trace_id"], entry["address"]) == ("read", TRACE, "192.0.2.7")


def test_a_network_condition_over_grpc_is_about_the_caller_and_not_the_proxy(tenant: Tenant) -> None:
    tenant.gateway.stored(tenant_id=tenant.name)
    policy = {"role": "viewer", "access_type": "READ", "effect": "forbid", "scope": "all"}
    policy |= {"conditions": {"network": {"in": ["192.0.2.0/24"]}}}
    assert tenant.call("POST", "/lily/v1/access/policies", "owner", json=policy).status_code == 201
    request = metadata.GetMetadataRequest(asset_id="orders")
    with pytest.raises(grpc.RpcError) as refused:
        over_grpc(tenant, "metadata.MetadataService/GetMetadata", request, metadata.GetMetadataResponse)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


def test_what_is_written_over_grpc_continues_the_caller_s_trace(tenant: Tenant) -> None:
    edge = lineage.Relationship(from_asset_id="a", to_asset_id="b", relationship_type="uses")
    with pytest.raises(grpc.RpcError):  # nobody applies it in this test
        over_grpc(tenant, "lineage.LineageService/IngestRelationships", edge, lineage.GenericMessage, "owner")
    headers = dict(tenant.gateway.logged(Topic.METADATA_EVENTS)[-1].headers())
    assert headers["traceparent"].decode().split("-")[1] == TRACE


def linked(tenant: Tenant, *tagged: str) -> None:
    """A chain a → b, of which these are tagged."""
    for each in "ab":
        tags = {"user_tags": ["pii"]} if each in tagged else {}
        tenant.gateway.stored(tenant_id=tenant.name, asset_id=each, asset_name=each, **tags)
        if tags:
            fact = {"tenant_id": tenant.name, "asset_id": each, "tag": "pii", "is_partial": False}
            told = {"is_asserted": True, "since": datetime.now(UTC), "cause": str(uuid4())}
            tenant.gateway.insert("effective_tags", fact | told)
    row = {"tenant_id": tenant.name, "from_id": "a", "to_id": "b", "relationship_type": "uses"}
    tenant.gateway.insert("edges", row)


def test_tagged_assets_that_lineage_shows_are_noted_by_grpc_and_in_a_difference(tenant: Tenant) -> None:
    linked(tenant, "b")
    request = lineage.GetLineageRequest(asset_id="a", depth=1)
    over_grpc(tenant, "lineage.LineageService/GetLineage", request, lineage.GetLineageResponse)
    assert [entry["resource_id"] for entry in eventually(tenant.entries)] == ["b"]
    since = {"from": "2026-01-01T00:00:00Z"}
    assert tenant.call("GET", f"{ASSETS}/lineage/a/diff", "viewer", params=since).json()["added"]
    eventually(lambda: len(tenant.entries()) == 2)


def forbidden_a(tenant: Tenant) -> None:
    policy = {"role": "viewer", "access_type": "READ", "effect": "forbid", "scope": "tag", "value": "pii"}
    assert tenant.call("POST", "/lily/v1/access/policies", "owner", json=policy).status_code == 201


def denied(tenant: Tenant) -> set[tuple[str, str]]:
    return {(e["resource_kind"], e["resource_id"]) for e in tenant.entries() if not e["allowed"]}


def test_what_is_answered_as_if_it_were_not_there_is_noted_as_denied(tenant: Tenant) -> None:
    linked(tenant, "a")
    forbidden_a(tenant)
    said = {"clocks": "{}", "said": "{}", "opened_at": datetime.now(UTC), "updated_at": datetime.now(UTC)}
    tenant.gateway.insert(
        "incidents", {"tenant_id": tenant.name, "incident_id": "i1", "asset_id": "a"} | said
    )
    assert tenant.call("GET", f"{ASSETS}/lineage/a", "viewer").status_code == 404
    assert tenant.call("GET", "/lily/v1/incidents/i1", "viewer").status_code == 404
    eventually(lambda: {("asset", "a"), ("incident", "i1")} <= denied(tenant))


def test_an_incident_of_a_tagged_asset_is_a_read_of_it(tenant: Tenant) -> None:
    linked(tenant, "a")
    said = {"clocks": "{}", "said": "{}", "opened_at": datetime.now(UTC), "updated_at": datetime.now(UTC)}
    tenant.gateway.insert(
        "incidents", {"tenant_id": tenant.name, "incident_id": "i1", "asset_id": "a"} | said
    )
    assert tenant.call("GET", "/lily/v1/incidents", "viewer").json()["incidents"]
    entry = tenant.entry()
    assert (entry["action"], entry["resource_id"], entry["reason"]) == ("read", "a", "incidents")


def test_a_denial_that_others_act_on_says_for_whom_it_was_asked(tenant: Tenant) -> None:
    tenant.gateway.stored(tenant_id=tenant.name)
    body = {
        "principal": {"subject": "bob", "roles": ["viewer"]},
        "decisions": [{"action": "WRITE", "asset_id": "orders"}, {"action": "READ", "asset_id": "orders"}],
    }
    assert tenant.call("POST", "/lily/v1/access/decisions", "owner", json=body).status_code == 200
    [entry] = eventually(lambda: [each for each in tenant.entries() if not each["allowed"]])
    assert (entry["action"], entry["resource_id"], entry["actor"]) == ("write", "orders", "ada")
    assert entry["reason"].startswith("asked for bob: ")


def test_a_change_of_a_protection_rule_names_the_rule(tenant: Tenant) -> None:
    rules, body = "/lily/v1/protection/rules", {"tag": "PII", "mask": {"kind": "hash"}}
    rule_id = tenant.call("POST", rules, "owner", json=body).json()["rule_id"]
    assert tenant.call("PUT", f"{rules}/{rule_id}", "owner", json=body).status_code == 200
    assert tenant.call("DELETE", f"{rules}/{rule_id}", "owner").status_code == 204
    wanted = [(each, "protection_rule", rule_id) for each in ("create", "update", "delete")]
    eventually(
        lambda: set(wanted) <= {(e["action"], e["resource_kind"], e["resource_id"]) for e in tenant.entries()}
    )


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
