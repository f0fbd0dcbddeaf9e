"""Enforcement as operators see it: planned without a trace, applied on demand, told, and taken back.

There is no log here: rules, requests and what others do in the database are followed all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from enforcement_kit import PROTECTION, enforcing, known_warehouse, register, rule, state, tag
from rest_kit import Gateway, problem
from typer.testing import CliRunner

from kit.enforced import Warehouse, soon_reads
from kit.eventually import eventually
from lily.apps.cli import app
from lily.domain.errors import LilyError
from lily.targets.enforcement.reaching import reach


@pytest.fixture
def warehouse(running: Gateway) -> Iterator[Warehouse]:
    with known_warehouse(running) as made:
        yield made


def ledger(api: Gateway, connector_id: str, reason: str) -> dict[str, bool]:
    """The statements said for a reason, each with whether it undoes another."""
    query = """SELECT s.statement, s.is_undo FROM enforcement_statements s
                 JOIN enforcement_plans p USING (plan_id)
                WHERE p.connector_id = %s AND p.reason = %s AND p.state = 'applied'"""
    return dict(api.fetch(query, connector_id, reason))


def test_a_plan_shows_every_statement_and_leaves_no_trace(running: Gateway, warehouse: Warehouse) -> None:
    connector_id = register(running, warehouse)
    tag(running, warehouse.column("customers", "email"), "planned")
    rule(running, tag="planned", mask={"kind": "hash"})
    before = warehouse.whole()
    answer = running.call("POST", f"{PROTECTION}/plan", json={"connector_id": connector_id})
    assert answer.status_code == 200, answer.text
    [relation] = answer.json()["relations"]
    assert relation["relation"] == "public.customers"
    assert relation["error"] is None
    assert any("CREATE OR REPLACE VIEW" in each for each in relation["statements"])
    assert any("REVOKE SELECT" in each for each in relation["statements"])
    assert any("DROP VIEW" in each for each in relation["undo"])
    assert warehouse.whole() == before
    problem(running.call("POST", f"{PROTECTION}/plan", json={"connector_id": str(uuid4())}), 404, "not_found")
    reader = running.token(role="reader")
    for path, method in (("/plan", "POST"), ("/apply", "POST"), ("/status", "GET")):
        body = {"connector_id": connector_id}
        refused = running.call(method, PROTECTION + path, as_=reader, json=body)
        assert refused.status_code == 403, path


def test_rules_and_requests_are_followed_told_and_taken_back(running: Gateway, warehouse: Warehouse) -> None:
    whole = warehouse.whole()
    connector_id = register(running, warehouse)
    email = warehouse.column("customers", "email")
    with enforcing(running.settings):
        eventually(lambda: state(running, connector_id).get("state") == "enforced", 20)
        ana = warehouse.connect("ana")
        value = "SELECT email FROM customers WHERE id = 1"
        tag(running, email, "followed")
        rule_id = rule(running, tag="followed", mask={"kind": "constant", "value": "hidden"})
        soon_reads(ana, value, [("hidden",)], 10)
        owner = warehouse.roles["owner"]
        eventually(lambda: owner in {each["role"] for each in state(running, connector_id)["excepted"]}, 10)
        found = state(running, connector_id)
        assert [each["relation"] for each in found["relations"]] == ["public.customers"]
        assert found["relations"][0]["state"] == "live"
        because = {each["role"]: each["because"] for each in found["excepted"]}
        assert because[owner] == "owns public.customers"
        assert because[warehouse.admin.info.user] == "superuser"
        assert any("CREATE OR REPLACE VIEW" in s["statement"] for s in found["plans"][0]["statements"])
        warehouse.run("DROP VIEW lily_masked_public.customers")
        eventually(lambda: ana.execute(value).fetchone() == ("hidden",), 10, (psycopg.Error,))
        answer = running.call("POST", f"{PROTECTION}/apply", json={"connector_id": connector_id})
        assert answer.status_code == 200, answer.text
        assert answer.json()["failed"] == {}
        assert running.call("DELETE", f"{PROTECTION}/rules/{rule_id}").status_code == 204
        soon_reads(ana, value, [("ada@example.org",)], 10)
        ana.close()
        place = f"/lily/v1/connectors/acme/{connector_id}"
        problem(running.call("DELETE", place), 409, "still_in_use")
        config = running.call("GET", place).json()["config"] | {"enforce": False}
        assert running.call("PATCH", place, json={"config": config}).status_code == 200
        eventually(lambda: state(running, connector_id)["state"] == "released", 20)
        prepared = ledger(running, connector_id, "preparation")
        assert prepared['CREATE SCHEMA "lily_masked_public"'] is False
        assert prepared['DROP SCHEMA IF EXISTS "lily_masked_public"'] is True
        for begin in (
            "CREATE SCHEMA lily_protection",
            "CREATE EVENT TRIGGER",
            "ALTER DATABASE",
            "ALTER ROLE",
        ):
            assert [said for said in prepared if begin in said], begin
        released = ledger(running, connector_id, "release")
        assert 'DROP SCHEMA "lily_masked_public"' in released
        assert any("DROP SCHEMA IF EXISTS lily_protection" in each for each in released)
        assert running.call("DELETE", place).status_code == 204
    assert warehouse.whole() == whole


def test_of_two_enforcers_one_works_and_the_other_takes_over(running: Gateway, warehouse: Warehouse) -> None:
    connector_id = register(running, warehouse)
    tag(running, warehouse.column("orders", "email"), "shared")
    with enforcing(running.settings):
        eventually(lambda: state(running, connector_id).get("state") == "enforced", 20)
        second = enforcing(running.settings)
        second.__enter__()
    try:
        rule(running, tag="shared")
        ana = warehouse.connect("ana")
        soon_reads(ana, "SELECT DISTINCT email FROM orders", [(None,)])
    finally:
        second.__exit__(None, None, None)


def test_the_operator_plans_and_sees_on_the_command_line(
    running: Gateway, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    connector_id = register(running, warehouse)
    tag(running, warehouse.column("orders", "email"), "typed")
    rule(running, tag="typed", effect="deny")
    monkeypatch.setattr("lily.settings.load_settings", lambda _: running.settings)
    options = ["--data-dir", str(tmp_path), "--tenant", "acme"]
    planned = CliRunner().invoke(app, ["enforce", "plan", *options, "--connector", warehouse.database])
    assert planned.exit_code == 0, planned.output
    assert "-- public.orders: email" in planned.output
    assert 'REVOKE SELECT, REFERENCES, TRIGGER ON TABLE "public"."orders"' in planned.output
    with enforcing(running.settings):
        applied = CliRunner().invoke(app, ["enforce", "apply", *options, "--connector", connector_id])
        assert applied.exit_code == 0, applied.output
        assert json.loads(applied.output[applied.output.index("{") :])["done"] == ["public.orders"]
    told = CliRunner().invoke(app, ["enforce", "status", *options])
    assert connector_id in {each["connector_id"] for each in json.loads(told.output)}


@pytest.mark.parametrize("host", ["169.254.169.254", "0.0.0.0", "224.0.0.1", "::ffff:169.254.169.254"])
def test_no_address_is_connected_to_where_no_database_is(host: str) -> None:
    with pytest.raises(LilyError, match="where no database is"):
        reach(host, 5432)
    assert reach("127.0.0.1", 5432) == "127.0.0.1"
