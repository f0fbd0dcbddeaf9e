"""Changes of the schema that commit after a mask came, and names that come back: they show nothing."""

from __future__ import annotations

import psycopg
import pytest

from kit.enforced import Warehouse, enforce, mails, masked

REFUSED = psycopg.errors.InsufficientPrivilege


def test_a_right_granted_in_a_transaction_that_ends_after_the_mask_shows_nothing(
    warehouse: Warehouse,
) -> None:
    workshop = warehouse.workshop()
    with warehouse.connect("owner").transaction() as owner:
        owner.connection.execute(warehouse.named("GRANT SELECT (email) ON public.orders TO {ana}"))
        assert sorted(enforce(workshop, mails(warehouse)).done) == [
            "public.buyers",
            "public.customers",
            "public.orders",
        ]
    ana = warehouse.connect("ana")
    with pytest.raises(REFUSED):
        ana.execute("SELECT email FROM public.orders")
    enforce(workshop, mails(warehouse))
    warehouse.run("SET ROLE {owner}; REVOKE SELECT ON orders FROM PUBLIC; RESET ROLE")
    enforce(workshop, {})
    assert ana.execute("SELECT count(email) FROM orders").fetchone() == (2,), "the grant was not lost"


def test_a_transaction_that_does_not_see_the_mask_cannot_grant(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    owner = warehouse.connect("owner")
    owner.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM public.orders")
    enforce(workshop, mails(warehouse))
    owner.execute(warehouse.named("GRANT SELECT ON public.orders TO {ana}"))
    with pytest.raises(psycopg.errors.SerializationFailure):
        owner.execute("COMMIT")


def test_who_has_a_transaction_looked_at_early_is_in_nobodys_way_for_good(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    owner = warehouse.connect("owner")
    owner.execute("BEGIN; SET CONSTRAINTS ALL IMMEDIATE; CREATE TABLE public.other (id integer)")
    outcome = enforce(workshop, {warehouse.column("orders", "email"): (masked(),)})
    assert (outcome.waiting, outcome.denied) == (["public.orders"], ["public.orders"])
    with pytest.raises(REFUSED):
        warehouse.connect("ana").execute("SELECT email FROM orders")
    owner.execute("COMMIT")
    assert enforce(workshop, {warehouse.column("orders", "email"): (masked(),)}).done == ["public.orders"]


def test_what_is_granted_bit_by_bit_before_anybody_looks_is_all_kept(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    enforce(workshop, mails(warehouse))
    for statement in ("GRANT SELECT ON customers TO {bob}", "GRANT SELECT ON customers TO {ana}"):
        warehouse.run("SET ROLE {owner}")
        warehouse.run(statement)
        warehouse.run("RESET ROLE")
    enforce(workshop, mails(warehouse))
    assert warehouse.connect("ana").execute("SELECT name FROM customers WHERE id = 1").fetchone() == ("Ada",)
    enforce(workshop, {})
    query = "SELECT grantee FROM information_schema.role_table_grants WHERE table_name = 'customers'"
    readers = {role for (role,) in warehouse.boss.execute(f"{query} AND privilege_type = 'SELECT'")}
    assert readers >= {warehouse.roles[name] for name in ("analysts", "ana", "bob", "auditor", "writer")}


def test_what_is_made_with_the_name_of_a_dropped_table_is_protected_from_its_first_moment(
    warehouse: Warehouse,
) -> None:
    workshop = warehouse.workshop()
    enforce(workshop, mails(warehouse))
    for _ in range(3):
        warehouse.run("DROP TABLE orders CASCADE")
        enforce(warehouse.workshop(), mails(warehouse))
        warehouse.run(
            """SET ROLE {owner}; CREATE TABLE orders AS SELECT 1 AS id, 'ada@example.org' AS email;
            GRANT SELECT ON orders TO {ana}; RESET ROLE"""
        )
        with pytest.raises(REFUSED):
            warehouse.connect("ana").execute("SELECT email FROM orders")
        enforce(workshop, mails(warehouse))
    enforce(workshop, mails(warehouse))
    kept = "SELECT relation_name, count(*) FROM lily_protection.originals GROUP BY 1 ORDER BY 1"
    assert warehouse.boss.execute(kept).fetchall() == [("buyers", 1), ("customers", 1), ("orders", 1)]


def test_a_column_that_is_made_anew_is_protected_from_its_first_moment(warehouse: Warehouse) -> None:
    enforce(warehouse.workshop(), mails(warehouse))
    warehouse.run(
        """SET ROLE {owner}; ALTER TABLE orders DROP COLUMN email CASCADE;
        ALTER TABLE orders ADD COLUMN email text DEFAULT 'secret';
        GRANT SELECT (email) ON orders TO {ana}; RESET ROLE"""
    )
    with pytest.raises(REFUSED):
        warehouse.connect("ana").execute("SELECT email FROM public.orders")


def test_what_was_renamed_between_the_look_and_the_work_is_looked_at_again(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    works = workshop.plan(mails(warehouse))
    warehouse.run(
        """ALTER TABLE customers RENAME name TO other; ALTER TABLE customers RENAME email TO name;
        ALTER TABLE customers RENAME other TO email"""
    )
    assert workshop.apply(works).disturbed == ["public.customers"]


def test_who_changes_the_schema_for_long_does_not_keep_the_enforcer_from_coming_back(
    warehouse: Warehouse,
) -> None:
    enforce(warehouse.workshop(), mails(warehouse))
    with warehouse.connect("owner").transaction() as owner:
        owner.connection.execute("CREATE TEMPORARY TABLE own (id integer)")
        assert warehouse.workshop().plan(mails(warehouse)) == []
        done = enforce(warehouse.workshop(), {warehouse.column("customers", "name"): (masked(),)}).done
        assert "public.customers" in done


def test_whatever_changes_the_schema_goes_on_working(warehouse: Warehouse) -> None:
    enforce(warehouse.workshop(), mails(warehouse))
    owner = warehouse.connect("owner")
    for change in (
        "CREATE MATERIALIZED VIEW public.totals AS SELECT id, total FROM public.orders",
        "CREATE UNIQUE INDEX CONCURRENTLY totals_by_id ON public.totals (id)",
        "REFRESH MATERIALIZED VIEW CONCURRENTLY public.totals",
        "REFRESH MATERIALIZED VIEW public.totals",
        "REINDEX TABLE CONCURRENTLY public.orders",
        "CLUSTER public.orders USING orders_pkey",
        "SELECT id INTO TEMPORARY own FROM public.orders",
        """CREATE PROCEDURE public.work() LANGUAGE plpgsql AS $$ BEGIN
           CREATE TABLE public.one (id integer); COMMIT; DROP TABLE public.one; END $$""",
        "CALL public.work()",
        "BEGIN; SAVEPOINT one; CREATE TABLE public.one (id integer); ROLLBACK TO one; COMMIT",
        "DROP MATERIALIZED VIEW public.totals",
    ):
        owner.execute(change)
    assert warehouse.boss.execute("SELECT FROM lily_protection.unchecked").fetchall() == []
