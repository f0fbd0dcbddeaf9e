"""The demo's warehouse: a PostgreSQL database with an owner and an analyst, made beside Lily's own."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from lily.domain.errors import MisconfiguredError
from lily.repositories.postgres.queries import load
from lily.standalone.environment import DATABASE_URL
from lily.standalone.files import write_atomically

DATABASE = "demo_shop"
OWNER, ANALYST = "demo_shop_owner", "demo_analyst"
Connection = psycopg.Connection[tuple[Any, ...]]
_FILE = "demo.json"
_QUERIES = load("demo_warehouse.sql", __package__)


@dataclass(frozen=True)
class Passwords:
    """What the demo logs in with; kept in the data directory, readable by its owner alone."""

    owner: str
    analyst: str
    webhook: str

    @classmethod
    def of(cls, data_dir: Path) -> Passwords:
        """Those of this installation, made at the first call."""
        file = data_dir / _FILE
        if not file.exists():
            fresh = cls(*(secrets.token_urlsafe(24) for _ in range(3)))
            write_atomically(file, json.dumps(asdict(fresh)))
        return cls(**json.loads(file.read_text()))


class Warehouse:
    """On the server of `url`, whose user makes roles and databases there."""

    def __init__(self, url: str, passwords: Passwords) -> None:
        self._url = url
        self.passwords = passwords
        place = urlsplit(url)
        self.host, self.port = place.hostname or "", place.port or 5432

    def ensure(self) -> None:
        """Return when roles, database, tables and rows are there; what is there stays as it is."""
        try:
            self._ensure_database()
            self._ensure_tables()
        except psycopg.errors.InsufficientPrivilege as error:
            raise MisconfiguredError(
                f"the demo makes two roles and a database beside Lily's own, and may not: {error}; run it "
                f"without your own {DATABASE_URL}, or let that user create roles and databases"
            ) from None

    def _ensure_database(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as server:
            _ensure_role(server, OWNER, self.passwords.owner, sql.SQL("CREATEROLE"))
            if not server.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone():
                names = sql.Identifier(DATABASE), sql.Identifier(OWNER)
                server.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(*names))

    def _ensure_tables(self) -> None:
        with self.connect(OWNER, self.passwords.owner) as shop:
            # Made by the owner, who may therefore decide what the analyst's sessions see first.
            _ensure_role(shop, ANALYST, self.passwords.analyst, sql.SQL(""))
            if shop.execute("SELECT to_regclass('public.top_customers')").fetchone() == (None,):
                shop.execute(_QUERIES["tables"])
                shop.execute(_QUERIES["rows"])
                analyst = sql.Identifier(ANALYST)
                shop.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}").format(analyst))

    def connect(self, user: str, password: str) -> Connection:
        return psycopg.connect(
            host=self.host,
            port=self.port,
            dbname=DATABASE,
            user=user,
            password=password,
            autocommit=True,
            connect_timeout=5,
        )

    def query(self, text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """What the analyst gets: the names of the columns and the rows."""
        with self.connect(ANALYST, self.passwords.analyst) as session:
            cursor = session.execute(text.encode())
            names = [column.name for column in cursor.description or ()]
            return names, cursor.fetchall() if names else []


def _ensure_role(connection: Connection, name: str, password: str, more: sql.SQL) -> None:
    there = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).fetchone()
    values = sql.SQL("ALTER" if there else "CREATE"), sql.Identifier(name), more, sql.Literal(password)
    connection.execute(sql.SQL("{} ROLE {} LOGIN {} PASSWORD {}").format(*values))
