"""What in a database has Lily's names but not Lily's owner is never trusted, and nobody can keep Lily out."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest

from kit.enforced import Warehouse, enforce, masked
from lily.targets.enforcement.controls import SomebodyElses
from lily.targets.enforcement.preparation import Options, Preparation
from lily.targets.enforcement.targets import Access, Target

REFUSED = psycopg.errors.InsufficientPrivilege
#: The key by which releases before this one kept each other away.
OLD_LOCK = 0x4C494C59454E46


def access(warehouse: Warehouse) -> Access:
    info = warehouse.admin.info
    config = {"host": info.host, "port": info.port, "database": warehouse.database, "user": info.user}
    return Access("acme", "c-1", "warehouse", config, info.password, "salt")


def test_functions_somebody_made_in_lilys_place_are_never_called(warehouse: Warehouse) -> None:
    warehouse.run(
        """SET ROLE {owner}; CREATE SCHEMA lily_protection; CREATE TABLE lily_protection.originals ();
        CREATE TABLE lily_protection.caught (who name); GRANT ALL ON lily_protection.caught TO PUBLIC;
        CREATE FUNCTION lily_protection.is_ours(name) RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO lily_protection.caught VALUES (current_user); RETURN false; END $$; RESET ROLE"""
    )
    before = warehouse.whole()
    preparation = Preparation(warehouse.admin, Options("salt"))
    for attempt in (preparation.make, preparation.drop, lambda: Target(access(warehouse))):
        with pytest.raises(SomebodyElses, match=f"lily_protection belongs to {warehouse.roles['owner']}"):
            attempt()
    with pytest.raises(SomebodyElses), preparation.imagined():
        pass
    assert warehouse.boss.execute("SELECT count(*) FROM lily_protection.caught").fetchone() == (0,)
    assert warehouse.whole() == before


def test_a_function_of_another_owner_among_lilys_is_refused(warehouse: Warehouse) -> None:
    warehouse.workshop()
    warehouse.run("ALTER FUNCTION lily_protection.rights_of(oid) OWNER TO {owner}")
    with pytest.raises(SomebodyElses, match=r"rights_of\(\) belongs to owner"):
        warehouse.workshop()


def test_a_schema_with_the_name_of_a_shadow_is_in_no_path_and_its_columns_are_denied(
    warehouse: Warehouse,
) -> None:
    warehouse.run(
        """SET ROLE {owner}; CREATE SCHEMA lily_masked_public;
        GRANT USAGE ON SCHEMA lily_masked_public TO PUBLIC;
        CREATE VIEW lily_masked_public.customers AS SELECT 'forged' AS name; RESET ROLE"""
    )
    problems = Preparation(warehouse.admin, Options("salt")).make()
    assert any("lily_masked_public is somebody else's" in each for each in problems)
    workshop = warehouse.workshop()
    outcome = enforce(workshop, {warehouse.column("customers", "email"): (masked(),)})
    assert outcome.failed == {}
    ana = warehouse.connect("ana")
    assert ana.execute("SHOW search_path").fetchone() == ('"$user", public',)
    assert ana.execute("SELECT name FROM customers WHERE id = 1").fetchone() == ("Ada",)
    with pytest.raises(REFUSED):
        ana.execute("SELECT email FROM customers")
    warehouse.run("DROP SCHEMA lily_masked_public CASCADE")
    enforce(warehouse.workshop(), {warehouse.column("customers", "email"): (masked(),)})
    assert warehouse.connect("ana").execute("SELECT DISTINCT email FROM customers").fetchall() == [(None,)]


def test_the_name_of_a_schema_does_not_make_what_is_in_it_known(warehouse: Warehouse) -> None:
    workshop = warehouse.workshop(deny_unknown=True)
    known = {f"{warehouse.database}.public.{name}" for name in ("customers", "orders", "buyers")}
    workshop.apply(workshop.plan({}, known=known))
    warehouse.run(
        """SET ROLE {owner}; CREATE SCHEMA lily_masked_x; GRANT USAGE ON SCHEMA lily_masked_x TO {ana};
        CREATE TABLE lily_masked_x.leak AS SELECT * FROM customers;
        GRANT SELECT ON lily_masked_x.leak TO {ana}; RESET ROLE"""
    )
    ana = warehouse.connect("ana")
    for _ in range(2):
        with pytest.raises(REFUSED):
            ana.execute("SELECT email FROM lily_masked_x.leak")
        workshop.apply(workshop.plan({}, known=known))


def test_nobody_who_can_only_connect_can_keep_lily_out(warehouse: Warehouse) -> None:
    whole, ana = warehouse.whole(), warehouse.connect("ana")
    ana.execute("SELECT pg_advisory_lock(%s)", (OLD_LOCK,))
    with closing(Target(access(warehouse))) as target:
        with pytest.raises(REFUSED), ana.transaction():
            ana.execute("LOCK TABLE lily_protection.workplace IN ACCESS SHARE MODE")
        target.preparation.make()
        enforce(target.workshop, {warehouse.column("customers", "email"): (masked(),)})
        assert ana.execute("SELECT email FROM lily_masked_public.customers").fetchone() == (None,)
        with pytest.raises(psycopg.OperationalError, match="another process works"):
            Target(access(warehouse))
        target.workshop.release()
        target.drop()
    assert warehouse.whole() == whole
    Target(access(warehouse)).close()


@pytest.mark.parametrize("how", ["DISABLE", "ENABLE REPLICA"])
def test_a_guard_that_was_switched_off_is_on_again_and_has_the_functions_of_this_release(
    warehouse: Warehouse, how: str
) -> None:
    workshop = warehouse.workshop()
    mail = {warehouse.column("customers", "email"): (masked(),)}
    enforce(workshop, mail)
    warehouse.run(
        """CREATE OR REPLACE FUNCTION lily_protection.guard() RETURNS event_trigger LANGUAGE plpgsql
        SECURITY DEFINER AS $$ BEGIN END $$"""
    )
    warehouse.boss.execute(f"ALTER EVENT TRIGGER lily_protection_guard {how}".encode())
    enforce(warehouse.workshop(), mail)
    warehouse.run("SET ROLE {owner}; GRANT SELECT ON customers TO {bob}; RESET ROLE")
    with pytest.raises(REFUSED):
        warehouse.connect("bob").execute("SELECT email FROM public.customers")
