"""Row-level security: the second wall between tenants, which the gateway's role cannot get around."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from lily.domain.errors import MisconfiguredError
from lily.repositories.postgres.migrations import migrate_database
from lily.repositories.postgres.pool import Database, bind
from lily.repositories.postgres.queries import load
from lily.repositories.postgres.roles import GATEWAY_ROLE, GatewayRole, ensure_gateway_role
from lily.repositories.postgres.tenant_admin import CELL_TABLES, tenant_tables
from lily.settings import DatabaseSettings
from lily.standalone.services import Services

TENANT_TABLES = """
SELECT c.relname::text, c.relrowsecurity, c.relforcerowsecurity, c.oid
  FROM pg_class c
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
 WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace
"""
KEYS = """
SELECT c.relname::text, i.relname::text, a.attname::text
  FROM pg_index x
  JOIN pg_class i ON i.oid = x.indexrelid
  JOIN pg_class c ON c.oid = x.indrelid AND c.relnamespace = 'public'::regnamespace
  JOIN pg_attribute t ON t.attrelid = c.oid AND t.attname = 'tenant_id'
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = x.indkey[0]
 WHERE x.indisunique
"""
ASSET = {
    "asset_id": "orders",
    "asset_name": "Orders",
    "asset_type": "table",
    "created_at": datetime(2026, 1, 1, tzinfo=UTC),
    "version": 1,
    "fields": 3,
    "clock_time": datetime(2026, 1, 1, tzinfo=UTC),
}


def insert(connection: psycopg.Connection, row: dict[str, Any]) -> None:
    names = sql.SQL(", ").join(map(sql.Identifier, row))
    values = sql.SQL(", ").join(map(sql.Placeholder, row))
    connection.execute(sql.SQL("INSERT INTO assets ({}) VALUES ({})").format(names, values), row)


@pytest.fixture
def gateway(services: Services, database: str) -> DatabaseSettings:
    password = services.environment["LILY_DATABASE_GATEWAY_PASSWORD"]
    return DatabaseSettings(url=database, gateway_password=password, pool_size=1)  # type: ignore[arg-type]


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        for tenant in ("acme", "globex"):
            insert(connection, ASSET | {"tenant_id": tenant, "clock_id": uuid4()})
        yield connection


@pytest.fixture
def role(owner: psycopg.Connection, gateway: DatabaseSettings) -> Iterator[psycopg.Connection]:
    """The gateway's own session."""
    assert owner
    with psycopg.connect(gateway.gateway_url, autocommit=True) as connection:
        yield connection


def tenants_seen(connection: psycopg.Connection) -> set[str]:
    return {tenant for (tenant,) in connection.execute("SELECT tenant_id FROM assets")}


def test_every_table_with_a_tenant_is_walled(database: str) -> None:
    with psycopg.connect(database) as connection:
        tables = connection.execute(TENANT_TABLES).fetchall()
    assert {"assets", "changes", "dead_letters", "idempotency_keys"} <= {name for name, *_ in tables}
    assert [name for name, enabled, _, _ in tables if not enabled] == []
    assert not {name for name, _, forced, _ in tables if not forced}


def test_every_table_has_no_policy_but_the_two(database: str) -> None:
    with psycopg.connect(database) as connection:
        policies = connection.execute(
            "SELECT tablename::text, policyname::text, roles::text[], qual FROM pg_policies"
        ).fetchall()
        names = {name for name, *_ in connection.execute(TENANT_TABLES)}
        owner = connection.info.user
    walls = {"tenant": (["public"], "(tenant_id = current_setting('lily.tenant'::text, true))")}
    walls |= {"owner": ([owner], "true")}
    assert sorted((table, name) for table, name, *_ in policies) == sorted(
        (table, name) for table in names for name in walls
    )
    assert all(walls[name] == (roles, qual) for _, name, roles, qual in policies)


def test_the_tenant_leads_every_key(database: str) -> None:
    with psycopg.connect(database) as connection:
        keys = connection.execute(KEYS).fetchall()
    assert keys
    assert [key for key in keys if key[2] != "tenant_id"] == []


def test_the_gateways_role_can_do_nothing_that_gets_around_the_wall(role: psycopg.Connection) -> None:
    attributes = role.execute(
        "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication FROM pg_roles "
        "WHERE rolname = current_user"
    ).fetchone()
    owned = role.execute("SELECT count(*) FROM pg_class WHERE pg_get_userbyid(relowner) = current_user")
    member = role.execute("SELECT count(*) FROM pg_auth_members WHERE pg_get_userbyid(member) = current_user")
    assert attributes == (False,) * 5
    assert (owned.fetchone(), member.fetchone()) == ((0,), (0,))


def test_a_query_that_forgets_the_tenant_finds_nothing(role: psycopg.Connection) -> None:
    assert tenants_seen(role) == set()
    assert tenants_seen_by(role, "") == set()


def tenants_seen_by(connection: psycopg.Connection, tenant: str) -> set[str]:
    with connection.transaction():
        connection.execute("SELECT set_config('lily.tenant', %s, true)", (tenant,))
        return tenants_seen(connection)


def test_a_session_sees_its_tenant_alone_and_only_in_its_transaction(role: psycopg.Connection) -> None:
    assert tenants_seen_by(role, "acme") == {"acme"}
    assert tenants_seen_by(role, "globex") == {"globex"}
    assert tenants_seen(role) == set()


@pytest.mark.parametrize(
    "attempt",
    [
        "SET ROLE lily",
        "SET SESSION AUTHORIZATION lily",
        "ALTER TABLE assets DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE assets NO FORCE ROW LEVEL SECURITY",
        "CREATE POLICY mine ON assets USING (true)",
        "DROP POLICY tenant ON assets",
        "ALTER ROLE lily_gateway BYPASSRLS",
        "SELECT * FROM lane_ends",
        "SELECT * FROM migrations",
        "INSERT INTO assets SELECT * FROM assets",
        "UPDATE assets SET tenant_id = 'acme'",
        "DELETE FROM changes",
        "TRUNCATE idempotency_keys",
        "DELETE FROM idempotency_keys",
        "CREATE TABLE mine (a int)",
        "SELECT pg_read_file('/etc/passwd')",
    ],
)
def test_the_gateways_role_is_refused(role: psycopg.Connection, attempt: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        role.execute(attempt.encode())


def test_switching_row_security_off_is_an_error_and_not_a_way_around(role: psycopg.Connection) -> None:
    role.execute("SET row_security = off")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        tenants_seen(role)


def test_a_row_of_another_tenant_cannot_be_written(role: psycopg.Connection) -> None:
    remember = "INSERT INTO idempotency_keys VALUES (%s, 'ada', 'k', '', gen_random_uuid())"
    with role.transaction():
        role.execute("SELECT set_config('lily.tenant', 'acme', true)")
        role.execute(remember, ("acme",))
    role.execute("SELECT set_config('lily.tenant', 'acme', false)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        role.execute(remember, ("globex",))


@pytest.mark.parametrize("isolation", ["first", "reused"])
def test_a_statement_is_bound_to_its_own_tenant_whatever_came_before(
    owner: psycopg.Connection, gateway: DatabaseSettings, isolation: str
) -> None:
    assert owner
    forgetful = "SELECT tenant_id FROM assets WHERE %(tenant_id)s <> ''"

    async def ask() -> list[Any]:
        database = Database(gateway)
        await database.open()
        try:
            if isolation == "reused":
                for _ in range(10):  # prepared, and planned for any tenant
                    await database.fetch(forgetful, {"tenant_id": "globex"})
            bound = await database.fetch(forgetful, {"tenant_id": "acme"})
            async with database.transaction("globex") as connection:
                inside = await (await connection.execute("SELECT tenant_id FROM assets")).fetchall()
            free = await database.fetch("SELECT tenant_id FROM assets", {})
            return [bound, inside, free]
        finally:
            await database.close()

    assert asyncio.run(ask()) == [[("acme",)], [("globex",)], []]


def test_every_reading_query_of_the_gateway_can_be_bound(role: psycopg.Connection) -> None:
    """Wrapping a statement must not change what it means to PostgreSQL."""
    parameters = {
        "tenant_id": "acme",
        "asset_id": "orders",
        "as_of": datetime(2027, 1, 1, tzinfo=UTC),
        "before_version": None,
        "before_seq": None,
        "limit": 10,
        "first": uuid4(),
        "last": uuid4(),
    }
    bindable = [text for text in load("assets.sql").values() if "%(tenant_id)s" in text]
    assert len(bindable) >= 4
    for text in bindable:
        role.execute(bind(text), defaultdict(lambda: None, parameters))
    found = role.execute(bind(load("assets.sql")["find_asset"]), parameters).fetchall()
    assert [row[0] for row in found] == [1]


def test_a_role_that_could_get_around_the_wall_is_refused(database: str) -> None:
    with psycopg.connect(database) as connection:
        with pytest.raises(MisconfiguredError, match="could get around"):
            ensure_gateway_role(connection, GatewayRole(str(connection.info.user)))
        connection.rollback()
        connection.execute("CREATE ROLE bypassing BYPASSRLS")
        with pytest.raises(MisconfiguredError, match="could get around"):
            ensure_gateway_role(connection, GatewayRole("bypassing"))
        connection.rollback()


def test_an_owner_who_is_no_superuser_still_works_on_every_tenant(
    owner: psycopg.Connection, database: str
) -> None:
    """A managed PostgreSQL gives no superuser: the owner passes by its policy."""
    name = f"owner_{uuid4().hex[:8]}"
    fresh = f"{database.rpartition('/')[0]}/{name}"
    owner.execute(f"CREATE ROLE {name} LOGIN CREATEROLE PASSWORD 'own'".encode())
    owner.execute(f"GRANT {GATEWAY_ROLE} TO {name} WITH ADMIN OPTION".encode())
    owner.execute(f"CREATE DATABASE {name} OWNER {name}".encode())
    place = fresh.rpartition("@")[2]
    try:
        url = f"postgresql://{name}:own@{place}"
        migrate_database(url)
        with psycopg.connect(url) as connection:
            for tenant in ("acme", "globex"):
                insert(connection, ASSET | {"tenant_id": tenant, "clock_id": uuid4()})
            assert tenants_seen(connection) == {"acme", "globex"}
    finally:
        owner.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
        owner.execute(f"REVOKE {GATEWAY_ROLE} FROM {name}".encode())
        owner.execute(f"DROP ROLE {name}".encode())


#: Tables with a tenant_id that belong to the installation: they stay in the shared cell's database.
INSTALLATIONS_OWN = {
    "api_keys",
    "audit",
    "audit_heads",
    "connectors",
    "enforcement_plans",
    "enforcement_relations",
    "enforcement_requests",
    "enforcement_statements",
    "enforcement_targets",
    "group_members",
    "group_roles",
    "groups",
    "login_attempts",
    "deliveries",
    "delivery_queues",
    "delivery_targets",
    "delivery_threads",
    "notification_causes",
    "notifications",
    "policies",
    "protection_rules",
    "quota_demands",
    "refresh_tokens",
    "revoked_tokens",
    "role_members",
    "roles",
    "scraped_items",
    "scraper_policies",
    "scraping_jobs",
    "secrets",
    "sessions",
    "subscriptions",
    "tenants",
    "users",
}


def test_of_every_table_is_known_whether_it_moves_with_its_tenant(database: str) -> None:
    """A new table with a tenant_id must be named in CELL_TABLES, or here; else a move would lose its rows."""
    known = set(CELL_TABLES) | INSTALLATIONS_OWN
    assert tenant_tables(database) - known == set()
    assert set(CELL_TABLES) <= tenant_tables(database)
