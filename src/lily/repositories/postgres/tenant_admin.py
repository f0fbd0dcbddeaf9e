"""What the operator does with tenants and cells, with the rights of the tables' owner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import psycopg
from psycopg import sql

from lily.domain.tenants import Cell, State
from lily.repositories.postgres.queries import load
from lily.repositories.postgres.tenants import Tenant, tenant_of

#: Tables with a tenant_id that are about assets and live in the database of the tenant's cell; all others
#: stay in the shared cell's. A test holds this list against the database.
CELL_TABLES = (
    "assets",
    "changes",
    "dead_letters",
    "idempotency_keys",
    "tenant_sources",
    "lineage_events",
    "edge_assertions",
    "edges",
    "refined_pairs",
    "tag_assertions",
    "tag_opt_outs",
    "tag_definitions",
    "effective_tags",
    "tag_changes",
    "incidents",
    "incident_names",
    "incident_changes",
    "propagation_arrears",
    "untold_tag_changes",
)
LIMITS = ("requests_per_second", "events_per_second", "max_assets", "max_bytes")
_SQL = load("tenant_admin.sql")


@dataclass(frozen=True)
class Fingerprint:
    """What a tenant has in a cell: the number of events that counted, and a hash of each kind of thing."""

    events: int
    assets: str
    edges: str
    tags: str
    incidents: str

    def differing(self, other: Fingerprint) -> list[str]:
        """The names of what is not the same."""
        return [name for name, value in asdict(self).items() if value != getattr(other, name)]


class TenantAdmin:
    """The shared cell's tables of tenants and cells."""

    def __init__(self, url: str) -> None:
        self._url = url

    def tenants(self) -> list[Tenant]:
        with self._connect() as connection:
            return [tenant_of(row) for row in connection.execute(_SQL["list_tenants"])]

    def find(self, tenant_id: str) -> Tenant | None:
        with self._connect() as connection:
            row = connection.execute(_SQL["find_tenant"], {"tenant_id": tenant_id}).fetchone()
        return tenant_of(row) if row else None

    def cells(self) -> dict[str, Cell]:
        with self._connect() as connection:
            return {row[0]: Cell(*row) for row in connection.execute(_SQL["list_cells"])}

    def make_cell(self, cell: Cell) -> None:
        with self._connect() as connection:
            connection.execute(_SQL["make_cell"], asdict(cell))

    def forget_cell(self, name: str) -> bool:
        """Whether the cell had no tenant left and is forgotten now."""
        with self._connect() as connection:
            return connection.execute(_SQL["forget_cell"], {"cell": name}).fetchone() is not None

    def runs_queries(self, cell: str, alive_seconds: float) -> bool:
        """Whether a pipeline that was alive so lately runs queries of this cell."""
        with self._connect() as connection:
            asked = {"cell": cell, "alive": alive_seconds}
            return connection.execute(_SQL["runs_queries"], asked).fetchone() == (True,)

    def make_tenant(self, tenant_id: str, cell: str) -> bool:
        """Whether the tenant was not there before."""
        with self._connect() as connection:
            made = connection.execute(_SQL["make_tenant"], {"tenant_id": tenant_id, "cell": cell})
            return made.fetchone() is not None

    def set_limit(self, tenant_id: str, limit: str, value: int | None) -> None:
        assert limit in LIMITS
        with self._connect() as connection:
            statement = sql.SQL(_SQL["set_limit"]).format(limit=sql.Identifier(limit))
            connection.execute(statement, {"tenant_id": tenant_id, "value": value})

    def set_state(self, tenant_id: str, state: State) -> None:
        with self._connect() as connection:
            connection.execute(_SQL["set_state"], {"tenant_id": tenant_id, "state": state.value})

    def settle(self, tenant_id: str, cell: str) -> None:
        with self._connect() as connection:
            connection.execute(_SQL["settle"], {"tenant_id": tenant_id, "cell": cell})

    def is_still_written(self, tenant_id: str, alive_seconds: float) -> bool:
        """Whether a process of the gateway that was alive so lately may still write for the tenant."""
        asked = {"tenant_id": tenant_id, "alive": alive_seconds}
        with self._connect() as connection:
            row = connection.execute(_SQL["count_writing"], asked).fetchone()
        return row != (0,)

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(self._url)


def create_database(url: str, name: str) -> None:
    """Make the database unless it is there."""
    with psycopg.connect(url, autocommit=True) as connection:
        if not connection.execute("SELECT FROM pg_database WHERE datname = %s", (name,)).fetchone():
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


def drop_database(url: str, name: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def fingerprint(url: str, tenant_id: str) -> Fingerprint:
    with psycopg.connect(url) as connection:
        row = connection.execute(_SQL["describe_state"], {"tenant_id": tenant_id}).fetchone()
    assert row is not None
    return Fingerprint(*row)


def copy_keys(source: str, target: str, tenant_id: str) -> None:
    """The idempotency keys of a tenant, so that a retry is recognised where the tenant lives then."""
    with psycopg.connect(source) as here, psycopg.connect(target) as there:
        rows = here.execute(_SQL["read_keys"], {"tenant_id": tenant_id}).fetchall()
        there.cursor().executemany(_SQL["write_key"], rows)


def positions(url: str) -> dict[str, dict[str, int]]:
    """The next offset of every partition, by query."""
    with psycopg.connect(url) as connection:
        return {row[0]: row[1] for row in connection.execute(_SQL["read_offsets"])}


def tenant_tables(url: str) -> set[str]:
    """All tables with a tenant_id but those of batches under way."""
    with psycopg.connect(url) as connection:
        return {name for (name,) in connection.execute(_SQL["list_tenant_tables"])}


def forget_rows(url: str, tenant_id: str, tables: Iterable[str]) -> None:
    """Remove a tenant's rows from these tables."""
    with psycopg.connect(url) as connection:
        for table in tables:
            statement = sql.SQL(_SQL["forget_rows"]).format(table=sql.Identifier(table))
            connection.execute(statement, {"tenant_id": tenant_id})
