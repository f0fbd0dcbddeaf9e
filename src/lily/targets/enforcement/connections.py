"""A connection to a target database, set up so that nothing of the database's own can interfere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from lily.repositories.postgres.queries import load
from lily.targets.enforcement.rights import Roles

#: What the guard in the database notifies of changes by others.
CHANNEL = "lily_protection"
#: So long a statement waits for somebody's open transaction, and others behind it.
LOCK_MS = 300
STATEMENT_MS = 30_000
_TARGET = load("enforcement_target.sql")

Row = tuple[Any, ...]
Connection = psycopg.Connection[Row]


def set_up(connection: Connection) -> Connection:
    """Names mean PostgreSQL's own things, and nothing waits for long."""
    connection.autocommit = True
    connection.execute("SET search_path = pg_catalog")
    connection.execute(sql.SQL("SET lock_timeout = {}").format(sql.Literal(LOCK_MS)))
    connection.execute(sql.SQL("SET statement_timeout = {}").format(sql.Literal(STATEMENT_MS)))
    return connection


def fetch(
    connection: Connection, statement: LiteralString, values: Mapping[str, Any] | None = None
) -> list[Row]:
    cursor = connection.execute(statement, values or {})
    return cursor.fetchall() if cursor.description else []


def read_roles(connection: Connection) -> Roles:
    rows = fetch(connection, _TARGET["read_roles"])
    return Roles({row[0]: row[1] for row in rows}, {row[0]: frozenset(row[4]) for row in rows})


def told(error: psycopg.Error) -> str:
    """What PostgreSQL says, without where."""
    return (error.diag.message_primary or str(error)).strip()
