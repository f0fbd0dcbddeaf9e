"""What others do to an enforced database: it never shows more, is put in order again, and nothing is lost."""

from __future__ import annotations

import psycopg
import pytest

from kit.enforced import Warehouse, denied, enforce, mails, masked
from lily.targets.enforcement.workshop import Scope

REFUSED = psycopg.errors.InsufficientPrivilege
PROTECTED = Scope(frozenset(), with_protected=True)


def test_a_right_granted_by_others_never_shows_a_value_and_comes_back_with_the_rest(
    warehouse: Warehouse,
) -> None:
    workshop = warehouse.workshop()
    enforce(workshop, mails(warehouse))
    warehouse.run(
        "SET ROLE {owner}; GRANT SELECT ON customers TO {bob}; GRANT SELECT (email) ON orders TO {ana}"
    )
    warehouse.run("RESET ROLE")
    ana, bob = warehouse.connect("ana"), warehouse.connect("bob")
    with pytest.raises(REFUSED):
        bob.execute("SELECT email FROM public.customers")
    with pytest.raises(REFUSED):
        ana.execute("SELECT email FROM public.orders")
    enforce(workshop, mails(warehouse))
    warehouse.run("SET ROLE {owner}; REVOKE SELECT ON customers FROM {analysts}; RESET ROLE")
    assert bob.execute("SELECT name, email FROM customers WHERE id = 1").fetchone() == ("Ada", None)
    enforce(workshop, {})
    assert bob.execute("SELECT email FROM public.customers WHERE id = 1").fetchone() == ("ada@example.org",)
    with pytest.raises(REFUSED):
        ana.execute("SELECT id FROM public.customers")


def test_without_a_guard_the_next_check_repairs(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    enforce(workshop, mails(warehouse))
    warehouse.run(
        "DROP EVENT TRIGGER lily_protection_guard; SET ROLE {owner}; GRANT SELECT ON customers TO {ana}"
    )
    warehouse.run(
        "ALTER TABLE customers ADD COLUMN phone text; RESET ROLE; DROP VIEW lily_masked_public.orders"
    )
    ana = warehouse.connect("ana")
    assert ana.execute("SELECT email FROM public.customers WHERE id = 1").fetchone() == ("ada@example.org",)
    works = workshop.plan(mails(warehouse), PROTECTED)
    assert {work.relation.name for work in works} == {"customers", "orders"}
    workshop.apply(works)
    with pytest.raises(REFUSED):
        ana.execute("SELECT email FROM public.customers")
    assert ana.execute("SELECT email, phone FROM customers WHERE id = 1").fetchone() == (None, None)
    assert ana.execute("SELECT email FROM orders WHERE id = 1").fetchone() == (None,)
    assert workshop.plan(mails(warehouse), PROTECTED) == []


def test_a_renamed_column_or_table_stays_protected_and_so_does_what_takes_its_name(
    warehouse: Warehouse,
) -> None:
    workshop = warehouse.workshop()
    enforce(workshop, mails(warehouse))
    ana = warehouse.connect("ana")
    warehouse.run(
        """SET ROLE {owner}; ALTER TABLE orders RENAME email TO mail;
        ALTER TABLE customers RENAME TO old_customers; CREATE TABLE customers AS SELECT * FROM old_customers;
        GRANT SELECT ON customers TO {analysts}; RESET ROLE"""
    )
    for query in (
        "email FROM public.customers",
        "mail FROM public.orders",
        "email FROM public.old_customers",
    ):
        with pytest.raises(REFUSED):
            ana.execute(f"SELECT {query}")
    for _ in range(3):
        enforce(workshop, mails(warehouse))
        for query in ("email FROM customers", "mail FROM orders", "email FROM old_customers"):
            assert ana.execute(f"SELECT DISTINCT {query}").fetchall() == [(None,)]
    assert workshop.plan(mails(warehouse)) == []


def test_what_was_renamed_twice_is_protected_by_each_name_it_had(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    enforce(workshop, mails(warehouse))
    warehouse.run("ALTER TABLE customers RENAME TO clients; ALTER TABLE clients RENAME email TO mail")
    enforce(workshop, mails(warehouse))
    known_again = {warehouse.column("clients", "mail"): (masked(),)}
    enforce(workshop, known_again)
    warehouse.run("ALTER TABLE clients RENAME TO people; ALTER TABLE people RENAME mail TO post")
    for _ in range(2):
        enforce(workshop, known_again)
        found = warehouse.connect("ana").execute("SELECT DISTINCT post FROM people").fetchall()
        assert found == [(None,)]


def test_a_right_granted_between_the_look_and_the_work_shows_nothing(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    works = workshop.plan(mails(warehouse))
    warehouse.run(
        "SET ROLE {owner}; GRANT SELECT ON customers TO {bob}; GRANT SELECT (email) ON orders TO {ana}"
    )
    warehouse.run("RESET ROLE")
    outcome = workshop.apply(works)
    assert sorted(outcome.disturbed) == ["public.customers", "public.orders"]
    assert outcome.done == ["public.buyers"]
    assert sorted(enforce(workshop, mails(warehouse)).done) == ["public.customers", "public.orders"]
    for name, relation in (("bob", "customers"), ("ana", "orders")):
        with pytest.raises(REFUSED):
            warehouse.connect(name).execute(f"SELECT email FROM public.{relation}")
    enforce(workshop, {})
    warehouse.run("SET ROLE {owner}; REVOKE SELECT ON customers FROM {analysts}; RESET ROLE")
    assert warehouse.connect("bob").execute("SELECT count(email) FROM customers").fetchone() == (2,)


def test_what_lily_recorded_is_never_reason_enough_to_show_a_value(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    enforce(workshop, mails(warehouse))
    warehouse.run("DROP EVENT TRIGGER lily_protection_guard; GRANT SELECT ON customers TO {ana}")
    warehouse.run("UPDATE lily_protection.originals SET enforced = lily_protection.rights_of(relation)")
    assert enforce(workshop, mails(warehouse)).done == ["public.customers"]
    with pytest.raises(REFUSED):
        warehouse.connect("ana").execute("SELECT email FROM public.customers")


def test_who_becomes_a_member_of_whom_is_seen(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    enforce(workshop, mails(warehouse))
    before = workshop.trace()
    assert workshop.trace() == before
    warehouse.run("GRANT {auditor} TO {bob}")
    assert workshop.trace() != before
    before = workshop.trace()
    warehouse.run("ALTER ROLE {bob} NOINHERIT")
    assert workshop.trace() != before


def test_a_new_part_of_a_protected_table_is_protected_from_its_first_moment(warehouse: Warehouse) -> None:
    warehouse.run(
        """SET ROLE {owner}; CREATE TABLE events (day date, mail text) PARTITION BY RANGE (day);
        GRANT SELECT ON events TO {analysts};
        ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {analysts}; RESET ROLE"""
    )
    workshop = warehouse.workshop()
    enforce(workshop, {warehouse.column("events", "mail"): (denied(),)})
    warehouse.run(
        """SET ROLE {owner};
        CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
        INSERT INTO events VALUES ('2020-02-02', 'secret'); RESET ROLE"""
    )
    with pytest.raises(REFUSED):
        warehouse.connect("ana").execute("SELECT mail FROM events_1")


def test_where_unknown_relations_are_denied_a_copy_is_readable_only_once_it_is_classified(
    warehouse: Warehouse,
) -> None:
    workshop = warehouse.workshop(deny_unknown=True)
    known = {f"{warehouse.database}.public.{name}" for name in ("customers", "orders", "buyers")}
    workshop.apply(workshop.plan(mails(warehouse), known=known))
    warehouse.run(
        "SET ROLE {owner}; CREATE TABLE leak AS SELECT * FROM customers; GRANT SELECT ON leak TO {ana}"
    )
    warehouse.run("RESET ROLE")
    ana = warehouse.connect("ana")
    for _ in range(2):
        with pytest.raises(REFUSED):
            ana.execute("SELECT email FROM leak")
        workshop.apply(workshop.plan(mails(warehouse), known=known))
    known |= {f"{warehouse.database}.public.leak", warehouse.column("leak", "email")}
    workshop.apply(workshop.plan(mails(warehouse), known=known))
    assert ana.execute("SELECT count(email) FROM leak").fetchone() == (2,)
    with pytest.raises(REFUSED):
        ana.execute("SELECT name FROM leak")  # which is no asset


def test_what_was_opened_by_itself_is_not_taken_away_by_the_next_change_of_others(
    warehouse: Warehouse,
) -> None:
    workshop = warehouse.workshop(deny_unknown=True)
    workshop.apply(workshop.plan({}, known=set()))
    orders = f"{warehouse.database}.public.orders"
    known = {orders, *(warehouse.column("orders", name) for name in ("id", "customer", "email", "total"))}
    workshop.apply(workshop.plan({}, Scope(frozenset({orders})), known))
    ana = warehouse.connect("ana")
    assert ana.execute("SELECT count(email) FROM orders").fetchone() == (2,)
    warehouse.run("SET ROLE {owner}; CREATE TABLE other (id integer); RESET ROLE")
    assert ana.execute("SELECT count(email) FROM orders").fetchone() == (2,)


def test_an_open_transaction_never_delays_protection(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    first = {warehouse.column("customers", "name"): (masked(),)}
    enforce(workshop, first)
    reader = warehouse.connect("ana")
    reader.autocommit = False
    assert reader.execute("SELECT email FROM customers WHERE id = 1").fetchone() == ("ada@example.org",)
    outcome = enforce(workshop, first | mails(warehouse))
    assert outcome.waiting == ["public.customers"]
    with pytest.raises(REFUSED):
        reader.execute("SELECT email FROM customers")
    reader.rollback()
    assert enforce(workshop, first | mails(warehouse)).waiting == []
    assert reader.execute("SELECT name, email FROM customers WHERE id = 1").fetchone() == (None, None)
    assert enforce(workshop, {}).waiting == ["public.customers"]
    reader.rollback()
    assert enforce(workshop, {}).waiting == []


def test_a_view_somebody_made_of_a_masked_table_survives_the_mask(warehouse: Warehouse) -> None:
    warehouse.run("GRANT CREATE ON SCHEMA public TO {ana}")
    workshop = warehouse.workshop()
    ana = warehouse.connect("ana")
    enforce(workshop, mails(warehouse))
    ana.execute("CREATE VIEW public.mine AS SELECT id, email FROM customers")
    assert ana.execute("SELECT email FROM mine WHERE id = 1").fetchone() == (None,)
    outcome = enforce(workshop, {})
    assert outcome.failed == {}
    assert ana.execute("SELECT email FROM mine WHERE id = 1").fetchone() == ("ada@example.org",)


def test_a_process_that_dies_in_the_middle_leaves_nothing_half_done(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop()
    before = warehouse.snapshot()
    with warehouse.admin.transaction(force_rollback=True):
        for work in workshop.plan(mails(warehouse)):
            for statement in work.statements[:-1]:
                warehouse.admin.execute(statement)
    assert warehouse.snapshot() == before
    enforce(workshop, mails(warehouse))
    assert warehouse.workshop().plan(mails(warehouse)) == [], "another process finds it done"
