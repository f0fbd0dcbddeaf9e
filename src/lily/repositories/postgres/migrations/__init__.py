"""Brings the database to this version: numbered migrations once, functions every time."""

from __future__ import annotations

from importlib.resources import files

import psycopg

_LEDGER = """
CREATE TABLE IF NOT EXISTS migrations (
    number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())
"""
# Any number will do as long as every process uses the same: two `lily migrate` take turns.
_LOCK = 0x4C494C59


def migrate_database(url: str) -> list[str]:
    """Apply what is missing, in order, in one transaction; returns the names applied."""
    with psycopg.connect(url) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        connection.execute(_LEDGER)
        done = {number for (number,) in connection.execute("SELECT number FROM migrations")}
        applied = []
        for number, name, text in _scripts():
            if number not in done:
                connection.execute(text.encode())
                connection.execute("INSERT INTO migrations (number, name) VALUES (%s, %s)", (number, name))
                applied.append(name)
        for function in _texts("lily.repositories.postgres", "functions"):
            connection.execute(function[1].encode())
    return applied


def _scripts() -> list[tuple[int, str, str]]:
    return [(int(name[:4]), name, text) for name, text in _texts(__name__)]


def _texts(package: str, folder: str = "") -> list[tuple[str, str]]:
    place = files(package).joinpath(folder) if folder else files(package)
    entries = [entry for entry in place.iterdir() if entry.name.endswith(".sql")]
    return sorted((entry.name, entry.read_text(encoding="utf-8")) for entry in entries)
