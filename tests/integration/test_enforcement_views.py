"""What others have built on masking views, or are given on them unasked, never shows a protected value."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

import psycopg
import pytest
from psycopg import sql

from kit.enforced import Warehouse, denied, enforce, masked
from lily.domain.protection import Protection

if TYPE_CHECKING:
    from lily.targets.enforcement.connections import Connection

REFUSED = psycopg.errors.InsufficientPrivilege
THROUGH_THE_VIEW = "SELECT email FROM lily_masked_public.customers"


def on_customers(warehouse: Warehouse, *columns: str) -> dict[str, tuple[Protection, ...]]:
    return {warehouse.column("customers", column): (masked(),) for column in columns}


def with_a_view_of_the_mask(warehouse: Warehouse) -> Connection:
    """A session of ana's in which a view is made of the masking view."""
    ana = warehouse.connect("ana")
    ana.execute("CREATE TEMP VIEW mine AS SELECT id, name, email FROM customers")
    assert ana.execute("SELECT DISTINCT email FROM mine").fetchall() == [(None,)]
    return ana


def refused(session: Connection, *queries: str) -> None:
    for query in queries:
        with pytest.raises(REFUSED):
            session.execute(query)


def ours(warehouse: Warehouse, which: LiteralString) -> int:
    """How many of these there are in the database's catalog."""
    [count] = warehouse.boss.execute(sql.SQL("SELECT count(*) FROM " + which)).fetchone() or (0,)
    return int(count)


def test_denying_what_was_masked_never_shows_it_through_a_view_in_use(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    enforce(workshop, on_customers(warehouse, "email"))
    ana = with_a_view_of_the_mask(warehouse)
    outcome = enforce(workshop, {warehouse.column("customers", "email"): (denied(),)})
    assert outcome.failed == {}
    refused(ana, THROUGH_THE_VIEW, "SELECT email FROM mine", "SELECT email FROM customers")
    assert ana.execute("SELECT name FROM customers WHERE id = 1").fetchone() == ("Ada",)
    assert workshop.plan({warehouse.column("customers", "email"): (denied(),)}) == []


def test_row_security_closes_a_masking_view_in_use(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    enforce(workshop, on_customers(warehouse, "email"))
    ana = with_a_view_of_the_mask(warehouse)
    warehouse.run(
        "ALTER TABLE customers ENABLE ROW LEVEL SECURITY; CREATE POLICY one ON customers USING (id = 1)"
    )
    assert enforce(workshop, on_customers(warehouse, "email")).failed == {}
    refused(ana, THROUGH_THE_VIEW, "SELECT id FROM mine", "SELECT id FROM lily_masked_public.customers")
    assert ana.execute("SELECT id FROM public.customers").fetchall() == [(1,)]


def test_what_cannot_be_masked_is_denied_and_told(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    warehouse.run("CREATE TABLE lily_masked_public.customers (in_the_way integer)")
    outcome = enforce(workshop, on_customers(warehouse, "email"))
    assert "not a view" in outcome.failed["public.customers"]
    ana = warehouse.connect("ana")
    refused(ana, "SELECT email FROM public.customers")
    assert ana.execute("SELECT count(name) FROM public.customers").fetchone() == (2,)
    warehouse.run("DROP TABLE lily_masked_public.customers")
    assert enforce(workshop, on_customers(warehouse, "email")).done == ["public.customers"]


def test_columns_may_change_names_under_a_view_in_use(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    enforce(workshop, on_customers(warehouse, "email"))
    ana = with_a_view_of_the_mask(warehouse)
    warehouse.run(
        """SET ROLE {owner}; ALTER TABLE customers RENAME name TO x;
        ALTER TABLE customers RENAME score TO name; ALTER TABLE customers RENAME x TO score; RESET ROLE"""
    )
    outcome = enforce(workshop, on_customers(warehouse, "email", "score"))
    assert outcome.failed == {}
    assert ana.execute("SELECT DISTINCT name, email FROM mine").fetchall() == [(None, None)]
    assert ana.execute("SELECT score, name FROM customers WHERE id = 1").fetchone() == (None, 10.5)
    refused(ana, "SELECT score FROM public.customers")


def test_default_privileges_give_nothing_of_what_lily_makes(warehouse: Warehouse) -> None:
    warehouse.run("SET ROLE {owner}; REVOKE ALL ON customers FROM {auditor} CASCADE; RESET ROLE")
    warehouse.run(
        """ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {auditor};
        ALTER DEFAULT PRIVILEGES GRANT USAGE ON SCHEMAS TO {auditor}"""
    )
    workshop = warehouse.workshop()
    enforce(workshop, on_customers(warehouse, "email"))
    auditor = warehouse.connect("auditor")
    refused(
        auditor,
        "SELECT name FROM lily_masked_public.customers",
        "SELECT salt FROM lily_protection.salts",
        "SELECT count(*) FROM lily_protection.originals",
    )
    kept = "has_table_privilege(%s, 'lily_protection.salts', 'SELECT')"
    assert warehouse.boss.execute(f"SELECT {kept}", (warehouse.roles["auditor"],)).fetchone() == (False,)
    warehouse.run("ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM {auditor}")
    warehouse.run("ALTER DEFAULT PRIVILEGES REVOKE ALL ON SCHEMAS FROM {auditor}")


def test_a_view_left_because_another_is_made_of_it_follows_the_rights_of_whoever_reads(
    warehouse: Warehouse,
) -> None:
    workshop = warehouse.workshop()
    enforce(workshop, on_customers(warehouse, "email"))
    ana = with_a_view_of_the_mask(warehouse)
    assert enforce(workshop, {}).failed == {}
    assert ana.execute("SELECT email FROM mine WHERE id = 1").fetchone() == ("ada@example.org",)
    writer = warehouse.connect("writer")
    writer.execute("UPDATE customers SET name = 'Adah' WHERE id = 1")
    refused(ana, "UPDATE customers SET name = 'x'")
    warehouse.run("SET ROLE {owner}; REVOKE SELECT ON customers FROM {analysts}; RESET ROLE")
    refused(ana, THROUGH_THE_VIEW, "SELECT id FROM mine", "SELECT id FROM customers")
    warehouse.run("SET ROLE {owner}; GRANT SELECT ON customers TO {analysts}; RESET ROLE")
    enforce(workshop, on_customers(warehouse, "email"))
    assert ana.execute("SELECT DISTINCT email FROM mine").fetchall() == [(None,)]


def test_release_completes_where_a_view_is_in_use(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    enforce(workshop, on_customers(warehouse, "email"))
    ana = with_a_view_of_the_mask(warehouse)
    assert warehouse.release().failed == {}
    assert ours(warehouse, "pg_namespace WHERE nspname = 'lily_protection'") == 0
    assert ana.execute("SELECT email FROM mine WHERE id = 1").fetchone() == ("ada@example.org",)
    enforce(warehouse.workshop(), on_customers(warehouse, "email"))
    assert ana.execute("SELECT DISTINCT email FROM mine").fetchall() == [(None,)]


def test_no_masking_view_of_an_old_name_is_left(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    enforce(workshop, on_customers(warehouse, "email"))
    warehouse.run("SET ROLE {owner}; ALTER TABLE customers RENAME TO clients; RESET ROLE")
    assert enforce(workshop, on_customers(warehouse, "email")).failed == {}
    ana = warehouse.connect("ana")
    assert ana.execute("SELECT DISTINCT email FROM clients").fetchall() == [(None,)]
    with pytest.raises(psycopg.errors.UndefinedTable):
        ana.execute("SELECT id FROM lily_masked_public.customers")
    assert warehouse.release().failed == {}
    assert ours(warehouse, "pg_namespace WHERE nspname LIKE 'lily%'") == 0


def test_what_shows_each_reader_something_else_is_denied_not_masked(warehouse: Warehouse) -> None:
    """Through a masking view a foreign table would be read as the enforcer's user on the other server."""
    warehouse.run(
        """CREATE FOREIGN DATA WRAPPER far; CREATE SERVER far FOREIGN DATA WRAPPER far;
        CREATE FOREIGN TABLE far_customers (id integer, email text) SERVER far;
        CREATE VIEW as_reader WITH (security_invoker) AS SELECT id, email FROM customers;
        GRANT SELECT ON far_customers, as_reader TO {analysts}"""
    )
    workshop = warehouse.workshop()
    for name in ("far_customers", "as_reader"):
        outcome = enforce(workshop, {warehouse.column(name, "email"): (masked(),)})
        assert f"public.{name}" in outcome.done
        assert ours(warehouse, "pg_class WHERE relnamespace = 'lily_masked_public'::regnamespace") == 0
        reads = "SELECT has_column_privilege(%s, %s, %s, 'SELECT')"
        for column, may in (("email", False), ("id", True)):
            asked = (warehouse.roles["ana"], name, column)
            assert warehouse.boss.execute(reads, asked).fetchone() == (may,)
