"""Brings the database to this version: its roles, numbered migrations once, functions every time."""

from __future__ import annotations

from importlib.resources import files

import psycopg

from lily.domain.errors import MisconfiguredError
from lily.repositories.postgres.roles import GatewayRole, ensure_gateway_role

_LEDGER = """
CREATE TABLE IF NOT EXISTS migrations (
    number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())
"""
#: Functions use JSON_SCALAR.
_OLDEST = 170_000
# Any number will do as long as every process uses the same: two `lily migrate` take turns.
_LOCK = 0x4C494C59


def migrate_database(url: str, gateway: GatewayRole | None = None) -> list[str]:
    """Apply what is missing, in order, in one transaction; returns the names applied.

    The gateway's role is made if need be and given its password; without one it cannot log in.
    """
    with psycopg.connect(url) as connection:
        require_version(connection.info.server_version)
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        ensure_gateway_role(connection, gateway or GatewayRole())
        connection.execute(_LEDGER)
        done = {number for (number,) in connection.execute("SELECT number FROM migrations")}
        _run_all(connection, "foundations")
        applied = []
        for number, name, text in _scripts():
            if number not in done:
                connection.execute(text.encode())
                connection.execute("INSERT INTO migrations (number, name) VALUES (%s, %s)", (number, name))
                applied.append(name)
        _run_all(connection, "functions")
    return applied


def require_version(found: int) -> None:
    """`found` is the number by which a server tells its version."""
    if found < _OLDEST:
        raise MisconfiguredError(
            f"the database is PostgreSQL {found // 10_000}; Lily needs {_OLDEST // 10_000} or newer. "
            "Upgrade it, or set LILY_DATABASE_URL to another one",
            found=found,
        )


def _run_all(connection: psycopg.Connection, folder: str) -> None:
    for _, text in _texts("lily.repositories.postgres", folder):
        connection.execute(text.encode())


def _scripts() -> list[tuple[int, str, str]]:
    return [(int(name[:4]), name, text) for name, text in _texts(__name__)]


def _texts(package: str, folder: str = "") -> list[tuple[str, str]]:
    place = files(package).joinpath(folder) if folder else files(package)
    entries = [entry for entry in place.iterdir() if entry.name.endswith(".sql")]
    return sorted((entry.name, entry.read_text(encoding="utf-8")) for entry in entries)
