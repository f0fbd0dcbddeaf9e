"""Of many databases each is enforced by itself: one's trouble or noise is not another's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from enforcement_kit import enforcing, know, known_warehouse, register, rule, state, tag
from rest_kit import Gateway, problem

from kit.enforced import Warehouse, soon_reads
from kit.eventually import eventually
from lily.targets.enforcement.connections import Connection
from lily.targets.enforcement.workshop import Workshop


@pytest.fixture
def warehouse(running: Gateway) -> Iterator[Warehouse]:
    with known_warehouse(running) as made:
        yield made


def test_a_secret_that_cannot_be_read_stops_one_database_and_no_other(
    running: Gateway, warehouse: Warehouse
) -> None:
    config = {"host": "127.0.0.1", "database": "shop", "user": "lily"}
    body = {"type": "postgres", "name": "aaa", "secret": "lost", "config": config}
    broken = running.call("POST", "/lily/v1/connectors/acme", json=body).json()["connector_id"]
    running.execute("UPDATE secrets SET ciphertext = '\\x00' WHERE owner = %s", f"connector/{broken}")
    connector_id = register(running, warehouse)
    tag(running, warehouse.column("orders", "email"), "isolated")
    rule(running, tag="isolated")
    with enforcing(running.settings):
        eventually(lambda: state(running, connector_id).get("state") == "enforced", 20)
        told = state(running, broken)
        assert told["state"] == "unreachable"
        assert "SecretUnreadable" in str(told)
        place = "/lily/v1/connectors/acme"
        assert running.call("DELETE", f"{place}/{broken}").status_code == 204, "nothing was done there"
        problem(running.call("DELETE", f"{place}/{connector_id}"), 409, "still_in_use")
        ana = warehouse.connect("ana")
        soon_reads(ana, "SELECT DISTINCT email FROM orders", [(None,)])
        assert running.call("DELETE", f"{place}/{connector_id}?abandon=true").status_code == 204


def test_a_database_that_ends_its_connections_and_is_removed_keeps_no_other_from_being_enforced(
    running: Gateway, warehouse: Warehouse
) -> None:
    place, connector_id = "/lily/v1/connectors/acme", register(running, warehouse)
    with enforcing(running.settings), known_warehouse(running) as other:
        eventually(lambda: state(running, connector_id).get("state") == "enforced", 20)
        warehouse.admin.execute(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()"""
        )
        assert running.call("DELETE", f"{place}/{connector_id}?abandon=true").status_code == 204
        another = register(running, other)
        eventually(lambda: state(running, another).get("state") == "enforced", 20)
        assert running.call("DELETE", f"{place}/{another}?abandon=true").status_code == 204


def test_a_flood_of_notices_is_answered_by_few_plans(
    running: Gateway, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector_id = register(running, warehouse)
    planned: list[str] = []
    plan = Workshop.plan

    def counted(workshop: Workshop, *arguments: Any, **named: Any) -> Any:
        planned.append(workshop.database)
        return plan(workshop, *arguments, **named)

    monkeypatch.setattr(Workshop, "plan", counted)
    with enforcing(running.settings):
        eventually(lambda: state(running, connector_id).get("state") == "enforced", 20)
        planned.clear()
        ana = warehouse.connect("ana")
        for _ in range(1000):
            ana.execute("NOTIFY lily_protection")
        eventually(lambda: planned, 10)
    assert len(planned) <= 4


def test_with_deny_unknown_what_is_scraped_stays_closed_until_somebody_classifies_it(
    running: Gateway, warehouse: Warehouse
) -> None:
    connector_id = register(running, warehouse, deny_unknown=True)
    metadata = json.dumps({"data_type": "text", "connector_id": connector_id})
    about = {"data_source": warehouse.database, "metadata": metadata}
    for name in ("id", "customer", "total"):
        place = warehouse.column("orders", name)
        running.stored(asset_id=place, asset_name=name, asset_type="column", external_id=place, **about)
    place = f"{warehouse.database}.public.orders"
    running.stored(asset_id=place, asset_name="orders", asset_type="table", external_id=place, **about)
    ana = warehouse.connect("ana")
    with enforcing(running.settings):
        eventually(lambda: state(running, connector_id).get("state") == "enforced", 20)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ana.execute("SELECT total FROM public.orders")
        tag(running, place, "reviewed")
        asked = running.call("POST", "/lily/v1/protection/apply", json={"connector_id": connector_id})
        assert asked.status_code == 200, asked.text
        assert ana.execute("SELECT count(*), count(email) FROM orders").fetchone() == (2, 2)
        warehouse.run("SET ROLE {owner}; ALTER TABLE orders ADD COLUMN note text; RESET ROLE")
        eventually(lambda: is_refused(ana, "SELECT note FROM public.orders"), 10)
        assert ana.execute("SELECT count(email) FROM public.orders").fetchone() == (2,)


def test_a_table_made_with_a_name_that_is_to_be_protected_is_found_without_a_scrape(
    running: Gateway, warehouse: Warehouse
) -> None:
    connector_id = register(running, warehouse)
    tag(running, know(running, warehouse, connector_id, ("later", "email")), "foreseen")
    rule(running, tag="foreseen")
    with enforcing(running.settings):
        eventually(lambda: state(running, connector_id).get("state") == "enforced", 20)
        warehouse.run("SET ROLE {owner}; CREATE TABLE later AS SELECT 'secret' AS email")
        warehouse.run("GRANT SELECT ON later TO {ana}; RESET ROLE")
        ana = warehouse.connect("ana")
        soon_reads(ana, "SELECT email FROM later", [(None,)], 10)


def test_the_ledger_tells_what_was_carried_out_and_that_the_rest_waits(
    running: Gateway, warehouse: Warehouse
) -> None:
    connector_id = register(running, warehouse)
    tag(running, know(running, warehouse, connector_id, ("customers", "name")), "first")
    tag(running, warehouse.column("customers", "email"), "second")
    rule(running, tag="first")
    with enforcing(running.settings):
        eventually(lambda: state(running, connector_id).get("state") == "enforced", 20)
        ana = warehouse.connect("ana")
        query = "SELECT DISTINCT name FROM customers"
        soon_reads(ana, query, [(None,)])
        ana.autocommit = False
        ana.execute(query)
        rule(running, tag="second")
        eventually(lambda: newest_plan(running, connector_id)["state"] == "waiting", 10)
        waiting = newest_plan(running, connector_id)["statements"]
        assert {each["is_said"] for each in waiting if each["is_meanwhile"]} == {True}
        assert {each["is_said"] for each in waiting if not each["is_meanwhile"]} == {False}
        ana.rollback()
        eventually(lambda: newest_plan(running, connector_id)["state"] == "applied", 20)
        applied = newest_plan(running, connector_id)["statements"]
        whole = [each for each in applied if not each["is_meanwhile"]]
        assert all(each["is_said"] != each["is_undo"] for each in whole)
        assert any("CREATE OR REPLACE VIEW" in each["statement"] for each in whole if each["is_said"])


def newest_plan(api: Gateway, connector_id: str) -> dict[str, Any]:
    """The newest plan."""
    plans: list[dict[str, Any]] = state(api, connector_id)["plans"]
    return plans[0]


def is_refused(session: Connection, query: LiteralString) -> bool:
    try:
        session.execute(query)
    except psycopg.errors.InsufficientPrivilege:
        return True
    return False
