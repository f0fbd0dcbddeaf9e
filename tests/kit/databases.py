"""A database per test, cloned from one that was migrated once."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
from psycopg import sql

from lily.repositories.postgres.migrations import migrate_database
from lily.repositories.postgres.roles import GatewayRole

_TEMPLATE = "lily_template"
_ADD_CELL = 'INSERT INTO cells (cell, "database", topic_prefix, lake_namespace) VALUES (%s, %s, %s, %s)'


class Databases:
    """Makes and drops databases on the server of `url`."""

    def __init__(self, url: str, gateway_password: str) -> None:
        self._url = url
        # No test pulls the plug of the machine: nothing needs to wait for the disk.
        self._execute("ALTER SYSTEM SET fsync = off")
        self._execute("SELECT pg_reload_conf()")
        self._execute("CREATE DATABASE {}", _TEMPLATE)
        migrate_database(self.url_of(_TEMPLATE), GatewayRole(password=gateway_password))

    def create(self) -> str:
        """The URL of a fresh database at this version of the schema."""
        name = f"test_{uuid4().hex}"
        self._execute("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy", name, _TEMPLATE)
        return self.url_of(name)

    def create_empty(self) -> str:
        """The URL of a fresh database that is not Lily's."""
        name = f"warehouse_{uuid4().hex}"
        self._execute("CREATE DATABASE {} TEMPLATE template0", name)
        return self.url_of(name)

    def drop(self, url: str) -> None:
        self._execute("DROP DATABASE {} WITH (FORCE)", urlsplit(url).path.removeprefix("/"))

    def dedicate(self, shared: str, tenant_id: str) -> str:
        """The URL of a database of its own for a tenant, known as its cell in the one at `shared`."""
        url, cell = self.create(), f"cell-{uuid4().hex[:8]}"
        place = (cell, urlsplit(url).path.removeprefix("/"), f"{cell}.", cell)
        with psycopg.connect(shared) as connection:
            connection.execute(_ADD_CELL, place)
            connection.execute("INSERT INTO tenants (tenant_id, cell) VALUES (%s, %s)", [tenant_id, cell])
        return url

    def url_of(self, name: str) -> str:
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{name}"))

    def _execute(self, statement: str, *names: str) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
