"""The database's two roles: the owner, who migrates and applies batches, and the gateway's, which row-level
security binds to one tenant at a time."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg import sql

from lily.domain.errors import MisconfiguredError

GATEWAY_ROLE = "lily_gateway"
_FIND = """
SELECT rolcanlogin, rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication
       OR pg_has_role(rolname, current_user, 'MEMBER')
  FROM pg_roles WHERE rolname = %s
"""
_ATTRIBUTES = "NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION"


@dataclass(frozen=True)
class GatewayRole:
    """The role's name and password; without a password it is left as it is."""

    name: str = GATEWAY_ROLE
    password: str = ""


def ensure_gateway_role(connection: psycopg.Connection, role: GatewayRole) -> None:
    """Make the role in the connection's transaction, or refuse one that could get around the wall."""
    name = sql.Identifier(role.name)
    found = connection.execute(_FIND, (role.name,)).fetchone()
    if found is None:
        connection.execute(sql.SQL("CREATE ROLE {} NOINHERIT NOLOGIN " + _ATTRIBUTES).format(name))
    elif found[1]:
        raise MisconfiguredError(
            f"the database role {role.name!r} could get around row-level security: it is a superuser, "
            "owns the tables, or may become who does; name another one in LILY_DATABASE_GATEWAY_ROLE"
        )
    if role.password:
        _set_password(connection, role)
    connection.execute("SELECT set_config('lily.gateway_role', %s, true)", (role.name,))
    database = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, name))


def _set_password(connection: psycopg.Connection, role: GatewayRole) -> None:
    """Encrypted here, so that neither the server's log nor its statistics ever show it."""
    encrypted = connection.pgconn.encrypt_password(
        role.password.encode(), role.name.encode(), b"scram-sha-256"
    )
    statement = sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}")
    connection.execute(statement.format(sql.Identifier(role.name), sql.Literal(encrypted.decode())))
