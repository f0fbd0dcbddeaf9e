"""Masks and denials in a real PostgreSQL: what analysts see, and that nothing is left of it afterwards."""

from __future__ import annotations

from datetime import UTC, date, datetime
from hashlib import sha256

import psycopg
import pytest
from psycopg import sql

from kit.enforced import Warehouse, denied, enforce, masked
from lily.domain.masks import Mask, MaskKind
from lily.domain.protection import Protection
from lily.targets.enforcement.connections import set_up
from lily.targets.enforcement.preparation import Options, Preparation
from lily.targets.enforcement.wanted import Wanted, relations_of
from lily.targets.enforcement.workshop import Scope, Workshop

REFUSED = psycopg.errors.InsufficientPrivilege
ALL = "SELECT * FROM customers ORDER BY id"


def email(warehouse: Warehouse, *protections: Protection) -> dict[str, tuple[Protection, ...]]:
    return {warehouse.column("customers", "email"): protections or (masked(),)}


def shape(warehouse: Warehouse, relation: str) -> list[object]:
    """The names and types of a relation's columns, in their order."""
    query = """SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
                WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum"""
    return [*warehouse.boss.execute(query, (relation,)).fetchall()]


def test_an_open_session_reads_the_mask_with_its_next_query_and_the_value_again_after_it(
    warehouse: Warehouse,
) -> None:
    workshop = warehouse.workshop()
    ana = warehouse.connect("ana")
    ana.execute("PREPARE mine AS SELECT * FROM customers ORDER BY id")
    before = ana.execute("EXECUTE mine").fetchall()
    assert before[0][2] == "ada@example.org"
    enforce(workshop, email(warehouse))
    for query in (ALL, "EXECUTE mine"):
        rows = ana.execute(query).fetchall()
        assert rows == [(*row[:2], None, *row[3:]) for row in before]
    enforce(workshop, {})
    assert ana.execute("EXECUTE mine").fetchall() == ana.execute(ALL).fetchall() == before


def test_the_table_itself_refuses_a_masked_column_however_it_is_asked_for(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    ana = warehouse.connect("ana")
    enforce(workshop, email(warehouse))
    for query in (
        "SELECT email FROM public.customers",
        "SELECT * FROM public.customers",
        "SELECT c FROM public.customers AS c",
        "SELECT id FROM public.customers WHERE email LIKE 'a%'",
        "SELECT count(*) FROM public.customers GROUP BY email",
        "COPY public.customers TO STDOUT",
        "TABLE public.customers",
    ):
        with pytest.raises(REFUSED):
            ana.execute(query)
    assert ana.execute("SELECT count(*), max(name) FROM public.customers").fetchone() == (2, "Bo")


def test_rights_come_back_exactly_as_they_were(warehouse: Warehouse) -> None:
    warehouse.run("SET ROLE {auditor}; GRANT SELECT ON customers TO {bob}; RESET ROLE")
    warehouse.run(
        "SET ROLE {owner}; GRANT UPDATE (name), SELECT (email) ON customers TO {ana} WITH GRANT OPTION"
    )
    warehouse.run("REVOKE TRUNCATE ON customers FROM {owner}; GRANT ALL ON orders TO {writer}; RESET ROLE")
    whole = warehouse.whole()
    workshop = warehouse.workshop()
    before = warehouse.snapshot()
    protections = {
        **email(warehouse),
        warehouse.column("orders", "email"): (denied(warehouse.roles["auditor"]),),
        warehouse.column("orders", "total"): (masked(),),
        warehouse.column("buyers", "email"): (masked(),),
    }
    outcome = enforce(workshop, protections)
    assert outcome.failed == {}
    assert len(outcome.done) == 3
    assert warehouse.snapshot() != before
    enforce(workshop, {})
    assert warehouse.snapshot() == before
    enforce(workshop, protections)
    warehouse.release()
    assert warehouse.whole() == whole


def test_every_mask_shows_what_it_says_and_keeps_the_type(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    ana = warehouse.connect("ana")
    enforce(
        workshop,
        {
            warehouse.column("customers", "name"): (masked(Mask(MaskKind.PARTIAL, first=1)),),
            warehouse.column("customers", "email"): (masked(Mask(MaskKind.HASH)),),
            warehouse.column("customers", "born"): (masked(Mask(MaskKind.DATE, unit="year")),),
            warehouse.column("customers", "seen"): (masked(Mask(MaskKind.DATE, unit="month")),),
            warehouse.column("customers", "score"): (masked(Mask(MaskKind.CONSTANT, value="7")),),
        },
    )
    ana.execute("SET timezone = 'Pacific/Auckland'")
    rows = ana.execute(ALL).fetchall()
    digest = sha256(b"saltada@example.org").hexdigest()[:60]
    assert rows[0][:4] == (1, "A*****", digest, date(1815, 1, 1))
    assert rows[0][4].astimezone(UTC) == datetime(2020, 5, 1, tzinfo=UTC)
    assert rows[0][5] == 7
    assert shape(warehouse, "public.customers") == shape(warehouse, "lily_masked_public.customers")


def test_a_value_shorter_than_what_a_partial_mask_shows_is_hidden(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    partial = masked(Mask(MaskKind.PARTIAL, first=1, last=2))
    enforce(workshop, {warehouse.column("customers", "name"): (partial,)})
    assert warehouse.connect("ana").execute("SELECT name FROM customers ORDER BY id").fetchall() == [
        ("*****",),
        ("*****",),
    ]


def test_a_denied_column_is_refused_and_the_others_stay(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    enforce(workshop, email(warehouse, denied(warehouse.roles["auditor"])))
    ana, auditor = warehouse.connect("ana"), warehouse.connect("auditor")
    for query in ("SELECT email FROM customers", ALL):
        with pytest.raises(REFUSED):
            ana.execute(query)
    assert ana.execute("SELECT name FROM customers ORDER BY id").fetchall() == [("Ada",), ("Bo",)]
    assert auditor.execute("SELECT email FROM customers WHERE id = 1").fetchone() == ("ada@example.org",)


def test_who_is_spared_sees_values_by_role_or_by_membership_and_nobody_gains(warehouse: Warehouse) -> None:
    warehouse.run("SET ROLE {owner}; REVOKE SELECT ON customers FROM {auditor} CASCADE; RESET ROLE")
    workshop = warehouse.workshop()
    warehouse.run("GRANT {auditor} TO {bob}")
    enforce(workshop, email(warehouse, masked(None, warehouse.roles["auditor"])))
    ana, bob, auditor = (warehouse.connect(name) for name in ("ana", "bob", "auditor"))
    assert ana.execute("SELECT email FROM customers WHERE id = 1").fetchone() == (None,)
    assert bob.execute("SELECT email FROM customers WHERE id = 1").fetchone() == ("ada@example.org",)
    for query in ("SELECT id FROM customers", "SELECT email FROM public.customers"):
        with pytest.raises(REFUSED):
            auditor.execute(query)


def test_of_several_rules_the_strictest_that_does_not_spare_somebody_counts(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    strict = masked(None, warehouse.roles["auditor"], rule="a")
    mild = masked(Mask(MaskKind.PARTIAL, first=3), rule="b")
    enforce(workshop, email(warehouse, strict, mild))
    seen = {
        name: warehouse.connect(name).execute("SELECT email FROM customers WHERE id = 1").fetchone()
        for name in ("ana", "auditor")
    }
    assert seen == {"ana": (None,), "auditor": ("ada*****",)}


def test_whoever_may_write_still_writes_masked_columns_too(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    writer, ana = warehouse.connect("writer"), warehouse.connect("ana")
    enforce(workshop, email(warehouse))
    writer.execute("INSERT INTO customers (id, name, email) VALUES (3, 'Cy', 'cy@example.org')")
    writer.execute("UPDATE customers SET email = 'new@example.org', name = 'Bob' WHERE id = 2")
    writer.execute("UPDATE customers SET name = 'Adah' WHERE id = 1")
    writer.execute("DELETE FROM customers WHERE id = 3 AND false")
    with pytest.raises(REFUSED):
        ana.execute("UPDATE customers SET name = 'x' WHERE id = 1")
    rows = warehouse.boss.execute(
        "SELECT id, name, email, seen IS NULL FROM public.customers ORDER BY id"
    ).fetchall()
    assert rows == [
        (1, "Adah", "ada@example.org", False),
        (2, "Bob", "new@example.org", False),
        (3, "Cy", "cy@example.org", False),
    ]
    writer.execute("DELETE FROM customers WHERE id = 3")
    assert writer.execute("SELECT count(*) FROM customers").fetchone() == (2,)


def test_parts_of_a_table_are_protected_with_it_and_it_with_them(warehouse: Warehouse) -> None:
    warehouse.run(
        """SET ROLE {owner}; CREATE TABLE events (day date, mail text) PARTITION BY RANGE (day);
        CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
        INSERT INTO events VALUES ('2020-02-02', 'secret');
        GRANT SELECT ON events, events_1 TO {analysts}; RESET ROLE"""
    )
    workshop = warehouse.workshop()
    ana = warehouse.connect("ana")
    for protected in ("events", "events_1"):
        enforce(workshop, {warehouse.column(protected, "mail"): (masked(),)})
        for name in ("events", "events_1"):
            assert ana.execute(f"SELECT mail FROM {name}").fetchall() == [(None,)]
            with pytest.raises(REFUSED):
                ana.execute(f"SELECT mail FROM public.{name}")


def test_names_made_to_break_out_stay_names(warehouse: Warehouse) -> None:
    evil = 'x"; DROP TABLE customers; --'
    warehouse.run(
        """SET ROLE {owner}; CREATE SCHEMA "s""; DROP"; GRANT USAGE ON SCHEMA "s""; DROP" TO {analysts};
        CREATE TABLE "s""; DROP"."x""; DROP TABLE customers; --" (id int, "c{{}}%s'""); --" text);
        INSERT INTO "s""; DROP"."x""; DROP TABLE customers; --" VALUES (1, 'secret');
        GRANT SELECT ON "s""; DROP"."x""; DROP TABLE customers; --" TO {analysts}; RESET ROLE"""
    )
    before = warehouse.snapshot()
    workshop = warehouse.workshop()
    constant = masked(Mask(MaskKind.CONSTANT, value="'); DROP TABLE customers; --"))
    key = warehouse.column(evil, "c{}%s'\"); --", 's"; DROP')
    outcome = enforce(workshop, {key: (constant,)})
    assert outcome.failed == {}
    assert len(outcome.done) == 1
    ana = warehouse.connect("ana")
    ana.execute('SET search_path = "lily_masked_s""; DROP", "s""; DROP"')
    assert ana.execute('SELECT * FROM "x""; DROP TABLE customers; --"').fetchall() == [
        (1, "'); DROP TABLE customers; --")
    ]
    enforce(workshop, {})
    assert warehouse.snapshot() == before


def test_rows_hidden_by_row_security_stay_hidden(warehouse: Warehouse) -> None:
    warehouse.run(
        "ALTER TABLE customers ENABLE ROW LEVEL SECURITY; CREATE POLICY one ON customers USING (id = 1)"
    )
    workshop = warehouse.workshop()
    ana = warehouse.connect("ana")
    enforce(workshop, email(warehouse))
    assert ana.execute("SELECT id FROM customers").fetchall() == [(1,)]
    with pytest.raises(REFUSED):
        ana.execute("SELECT email FROM customers")


def test_a_role_keeps_its_own_search_path_and_reads_masks_in_it(warehouse: Warehouse) -> None:
    warehouse.run(
        """CREATE SCHEMA sales AUTHORIZATION {owner}; GRANT USAGE ON SCHEMA sales TO {analysts};
        SET ROLE {owner}; CREATE TABLE sales.customers AS SELECT 9 AS id, 'sales@example.org' AS email;
        GRANT SELECT ON sales.customers TO {analysts}; RESET ROLE;
        ALTER ROLE {bob} SET search_path = sales, public"""
    )
    workshop = warehouse.workshop()
    ana, bob = warehouse.connect("ana"), warehouse.connect("bob")
    enforce(workshop, {warehouse.column("customers", "email", "sales"): (masked(),)})
    assert bob.execute("SELECT * FROM customers").fetchall() == [(9, None)]
    assert ana.execute("SELECT email FROM customers WHERE id = 1").fetchone() == ("ada@example.org",)


def test_without_a_superuser_masks_work_and_what_cannot_be_done_is_told(warehouse: Warehouse) -> None:
    """A role with the rights of the tables' owner, who may create schemas and owns the database."""
    warehouse.run("GRANT {owner} TO {auditor} WITH INHERIT TRUE, SET TRUE")
    owned = sql.SQL("ALTER DATABASE {} OWNER TO {}")
    warehouse.boss.execute(
        owned.format(sql.Identifier(warehouse.database), sql.Identifier(warehouse.roles["auditor"]))
    )
    session = set_up(warehouse.connect("auditor"))
    before = warehouse.snapshot()
    options = Options("salt")
    problems = Preparation(session, options).make()
    assert any("not a superuser" in each for each in problems)
    workshop = Workshop(session, options)
    outcome = enforce(workshop, email(warehouse))
    assert outcome.failed == {}
    ana = warehouse.connect("ana")
    assert ana.execute("SELECT email FROM customers WHERE id = 1").fetchone() == (None,)
    with pytest.raises(REFUSED):
        ana.execute("SELECT email FROM public.customers")
    enforce(workshop, {})
    assert warehouse.snapshot() == before
    Preparation(session, options).drop()


def test_a_temporary_table_does_not_deceive_the_guard(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    enforce(workshop, email(warehouse))
    warehouse.run(
        """SET ROLE {owner}; CREATE TEMP TABLE pg_class AS SELECT * FROM pg_catalog.pg_class WHERE false;
        GRANT SELECT ON public.customers TO {ana}; RESET ROLE"""
    )
    with pytest.raises(REFUSED):
        warehouse.connect("ana").execute("SELECT email FROM public.customers")


def test_names_with_dots_and_quotes_are_protected_as_the_scraper_spells_them(warehouse: Warehouse) -> None:
    warehouse.run(
        """SET ROLE {owner}; CREATE TABLE "a.b" (id integer, "user.email" text, "say ""hi""!" text);
        GRANT SELECT ON "a.b" TO {analysts}; RESET ROLE"""
    )
    workshop = warehouse.workshop()
    column = f'{warehouse.database}.public."a.b"."user.email"'
    wanted = Wanted(columns={"one": (column, (denied(),))})
    scope = Scope(frozenset(relations_of(column)))
    works = workshop.plan(wanted.protections(), scope)
    assert [work.relation.label for work in works] == ['public."a.b"']
    assert workshop.apply(works).failed == {}
    with pytest.raises(REFUSED):
        warehouse.connect("ana").execute('SELECT "user.email" FROM "a.b"')
    enforce(workshop, {f'{warehouse.database}.public."a.b"."say ""hi""!"': (denied(),)})
    with pytest.raises(REFUSED):
        warehouse.connect("ana").execute('SELECT "say ""hi""!" FROM "a.b"')
