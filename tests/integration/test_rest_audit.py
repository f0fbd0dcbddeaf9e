"""Auditors read the audit: in pages, of an asset, and whole; nobody else does."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from rest_kit import Gateway, gateway, problem

from kit.audit import entry
from kit.databases import Databases
from lily.domain.audit import AuditEntry
from lily.domain.event_ids import members, new_batch_id
from lily.repositories.postgres.audit_chains import AuditChains
from lily.settings import Settings

AUDIT = "/lily/v1/audit"


@pytest.fixture(scope="module")
def running(shared_settings: Settings) -> Iterator[Gateway]:
    with gateway(shared_settings) as running:
        yield running


class Audited:
    """A tenant of its own on the shared gateway, and its auditor eve."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.tenant = f"tenant-{uuid4().hex[:8]}"

    def add(self, *entries: AuditEntry, tenant: str = "") -> None:
        mine = [replace(each, tenant_id=tenant or self.tenant) for each in entries]
        settings = self.gateway.settings
        with psycopg.connect(settings.database.url.get_secret_value(), autocommit=True) as connection:
            AuditChains(settings.audit.key.get_secret_value()).add(connection, mine, "test", 0)

    def ask(self, path: str = AUDIT, role: str = "auditor", **params: Any) -> httpx.Response:
        token = self.gateway.token(self.tenant, role, "eve")
        return self.gateway.call("GET", path, as_=token, params=params)

    def get(self, path: str = AUDIT, **params: Any) -> Any:
        answer = self.ask(path, **params)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def api(running: Gateway) -> Audited:
    return Audited(running)


def ours(page: dict[str, Any]) -> list[str]:
    """The ids the test put there; that auditors read the audit is in it, too."""
    return [each["resource_id"] for each in page["entries"] if each["actor"] != "eve"]


def test_pages_follow_each_other_newest_first_and_each_entry_comes_once(api: Audited) -> None:
    api.add(*(entry(str(number)) for number in range(120)))
    seen: list[str] = []
    token = ""
    while True:
        page = api.get(page_size=50, page_token=token, actor="ada")
        seen += ours(page)
        token = page["next_page_token"]
        if not token:
            break
    assert seen == [str(number) for number in reversed(range(120))]


def test_a_page_token_belongs_to_its_question(api: Audited) -> None:
    api.add(*(entry(str(number)) for number in range(3)))
    token = api.get(page_size=1, actor="ada")["next_page_token"]
    problem(api.ask(page_token=token), 400, "malformed_request")


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ({"actor": "bob"}, ["by bob"]),
        ({"allowed": "false"}, ["denied"]),
        ({"action": "purge"}, ["purged"]),
        ({"resource_kind": "policy"}, ["a policy"]),
        ({"resource_id": "denied"}, ["denied"]),
        ({"trace_id": "abc"}, ["traced"]),
        ({"since": "2026-03-02T00:00:00Z", "actor": "ada"}, ["later"]),
        ({"until": "2026-02-28T00:00:00Z"}, []),
    ],
)
def test_filters_narrow_down(api: Audited, question: dict[str, str], expected: list[str]) -> None:
    march = entry().at
    api.add(
        entry("by bob", actor="bob"),
        entry("denied", allowed=False),
        entry("purged", action="purge"),
        entry("a policy", resource_kind="policy"),
        entry("traced", trace_id="abc"),
        entry("later", at=march.replace(day=3)),
    )
    assert ours(api.get(**question)) == expected


def test_an_asset_s_audit_has_its_reads_its_writes_and_the_batches_it_was_in(api: Audited) -> None:
    batch = new_batch_id(1, 3)
    for index, id_ in enumerate(members(batch)):
        api.gateway.applied(id_, "created", asset_id=f"asset-{index}", tenant_id=api.tenant)
    api.add(
        entry("asset-1", action="read"),
        entry("", action="apply", event_id=batch, events=3, reason="3 created"),
        entry("", action="apply", event_id=new_batch_id(2, 3), events=3, reason="another batch"),
        entry("asset-2"),
        entry("asset-1", action="delete"),
        entry("asset-1", resource_kind="policy"),
    )
    page = api.get("/lily/v1/metadata/audit/asset-1")
    assert [each["action"] for each in page["entries"] if each["actor"] == "ada"] == [
        "delete",
        "apply",
        "read",
    ]
    first = api.get("/lily/v1/metadata/audit/asset-1", page_size=1, actor="ada")
    second = api.get(
        "/lily/v1/metadata/audit/asset-1", page_size=1, actor="ada", page_token=first["next_page_token"]
    )
    assert second["entries"][0]["reason"] == "3 created"


def test_batches_that_wrote_an_asset_of_a_tenant_with_a_database_of_its_own_are_in_its_audit(
    api: Audited, databases: Databases
) -> None:
    home = databases.dedicate(api.gateway.settings.database.url.get_secret_value(), api.tenant)
    batch = new_batch_id(1, 3)
    with psycopg.connect(home) as connection:
        connection.execute(
            "INSERT INTO changes"
            " (lane, tenant_id, asset_id, event_id, event_time, outcome, version, fields, actor)"
            " VALUES ('structural', %s, 'asset-1', %s, now(), 'created', 1, 3, 'ada')",
            [api.tenant, next(members(batch))],
        )
    api.add(entry("", action="apply", event_id=batch, events=3, reason="3 created"))
    page = api.get("/lily/v1/metadata/audit/asset-1", actor="ada")
    assert [each["reason"] for each in page["entries"]] == ["3 created"]


def test_another_tenant_s_audit_is_not_shown(api: Audited) -> None:
    api.add(entry("secret"), tenant=f"{api.tenant}-other")
    assert ours(api.get()) == []
    assert ours(api.get("/lily/v1/metadata/audit/secret")) == []
    assert "secret" not in api.ask(f"{AUDIT}/export").text


@pytest.mark.parametrize("path", [AUDIT, f"{AUDIT}/export", "/lily/v1/metadata/audit/orders"])
def test_only_auditors_and_owners_may_read_it(api: Audited, path: str) -> None:
    problem(api.ask(path, "viewer"), 403, "forbidden")
    problem(api.gateway.client.get(path), 401, "unauthenticated")
    assert api.ask(path, "owner").status_code == 200


def test_an_export_is_complete_in_order_and_safe_to_open(api: Audited) -> None:
    api.add(*(entry(f"={number}") for number in range(2500)))
    exported = api.ask(f"{AUDIT}/export", actor="ada")
    assert exported.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line)["resource_id"] for line in exported.text.splitlines()] == [
        f"={number}" for number in range(2500)
    ]
    table = api.ask(f"{AUDIT}/export", actor="ada", format="csv")
    assert table.headers["content-disposition"] == 'attachment; filename="audit.csv"'
    assert [row["resource_id"] for row in csv.DictReader(io.StringIO(table.text))] == [
        f"'={number}" for number in range(2500)
    ]


@pytest.mark.parametrize("question", [{"since": "yesterday"}, {"actor": "a\x00b"}, {"page_size": -1}])
def test_a_question_that_cannot_be_asked_is_refused(api: Audited, question: dict[str, Any]) -> None:
    problem(api.ask(**question), 400, "malformed_request")
