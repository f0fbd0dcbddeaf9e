"""A database to be enforced: many tables with an analyst who reads them, registered with an installation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit
from uuid import uuid4

import httpx
import psycopg
from psycopg import sql

from bench.kit.platforms import Platform
from bench.kit.waiting import wait_until

TABLES = 100
#: Of each table so many columns are protected from the beginning, and some are free for the runs.
PROTECTED, FREE = 10, 2
TAG = "PII"
_API = "/lily/v1"


class Enforced:
    """A database of its own on the installation's server, and a tenant's view of it."""

    def __init__(self, platform: Platform, tenant: str) -> None:
        self._platform = platform
        self._tenant = tenant
        mark = uuid4().hex[:8]
        self.database, self.analyst = f"bench_{mark}", f"bench_analyst_{mark}"
        headers = {"authorization": f"Bearer {platform.token(tenant)}"}
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{platform.port}", headers=headers, timeout=60)

    def build(self) -> None:
        """Tables, a registered connector, assets, a rule, and the columns protected from the beginning."""
        on_server = psycopg.connect(self._platform.database_url, autocommit=True)
        on_server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.database)))
        on_server.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'bench'").format(sql.Identifier(self.analyst))
        )
        on_server.close()
        with psycopg.connect(self._url()) as connection:
            for number in range(TABLES):
                _make_table(connection, f"t{number}", self.analyst)
        self._register()
        self.ask("POST", "/protection/rules", json={"tag": TAG, "mask": {"kind": "null"}})
        wait_until(self._is_enforced, 120, "the database is ready for masks")
        columns = [self.asset(n, c) for n in range(TABLES) for c in range(PROTECTED + FREE)]
        for start in range(0, len(columns), 400):
            self.ask("POST", "/metadata", json={"assets": columns[start : start + 400]})
        protected = [(n, c) for n in range(TABLES) for c in range(PROTECTED)]
        for start in range(0, len(protected), 200):
            self.tag_all(protected[start : start + 200])
        session = self.connect()
        wait_until(lambda: self.masked(session, protected) == len(protected), 300, "all is masked", 0.5)
        session.close()

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        answer = self.http.request(method, _API + path, **options)
        answer.raise_for_status()
        return answer

    def connect(self) -> psycopg.Connection[Any]:
        """The analyst's session, ready for masks."""
        url = urlsplit(self._url())
        place = url.netloc.rpartition("@")[2]
        return psycopg.connect(
            urlunsplit(url._replace(netloc=f"{quote(self.analyst)}:bench@{place}")), autocommit=True
        )

    def tag(self, asset_id: str) -> None:
        body = {"asset_id": asset_id, "tags": [TAG]}
        self.ask(
            "POST", "/metadata/governance/classification", json=body, headers={"prefer": "respond-async"}
        )

    def derive(self, origin: str, columns: Sequence[tuple[int, int]]) -> None:
        """Say that these columns are made from one asset."""
        self.ask("POST", "/metadata", json={"asset_id": origin, "asset_name": origin, "asset_type": "table"})
        ends = {"from_asset_id": origin, "relationship_type": "derived-from"}
        edges = [ends | {"to_asset_id": self.place(*each)} for each in columns]
        self.ask("POST", "/metadata/lineage", json={"relationships": edges})

    def untag(self, table: int, column: int) -> None:
        path = f"/metadata/governance/classification/{self.place(table, column)}"
        self.ask("DELETE", path, params={"tag": TAG}, headers={"prefer": "respond-async"})

    def tag_all(self, columns: Sequence[tuple[int | str, int]]) -> None:
        """In one request: the assets say it of themselves."""
        assets = [self.asset(*each) | {"tags": [TAG]} for each in columns]
        self.ask("POST", "/metadata", json={"assets": assets}, headers={"prefer": "respond-async"})

    def masked(self, session: psycopg.Connection[Any], columns: Sequence[tuple[int, int]]) -> int:
        """How many of these columns the analyst sees masked, in one query; -1 when it is refused."""
        parts = (
            sql.SQL("SELECT count(*) FILTER (WHERE {} IS NULL) AS n FROM {}").format(
                sql.Identifier(f"c{column}"), sql.Identifier(f"t{table}")
            )
            for table, column in columns
        )
        query = sql.SQL("SELECT sum(n) FROM ({}) AS all_of_them").format(sql.SQL(" UNION ALL ").join(parts))
        try:
            row = session.execute(query).fetchone()
        except psycopg.errors.InsufficientPrivilege:  # planned before a mask came, carried out after it
            return -1
        return int(row[0]) if row else 0

    def place(self, table: int | str, column: int) -> str:
        return f"{self.database}.public.t{table}.c{column}"

    def asset(self, table: int | str, column: int) -> dict[str, Any]:
        place = self.place(table, column)
        return {
            "asset_id": place,
            "asset_name": f"c{column}",
            "asset_type": "column",
            "external_id": place,
            "data_source": self.database,
            "metadata": {"data_type": "text", "connector_id": self.connector_id},
        }

    def remove(self) -> None:
        """Leave the installation as it was."""
        self.ask("DELETE", f"/connectors/{self._tenant}/{self.connector_id}?abandon=true")
        self.http.close()
        with psycopg.connect(self._platform.database_url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(self.database)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(self.analyst)))

    def _register(self) -> None:
        url = urlsplit(self._platform.database_url)
        config = {"host": url.hostname, "port": url.port, "database": self.database, "user": url.username}
        body = {"type": "postgres", "name": self.database, "secret": url.password, "config": config}
        self.connector_id = str(
            self.ask("POST", f"/connectors/{self._tenant}", json=body).json()["connector_id"]
        )

    def _is_enforced(self) -> bool:
        found = self.ask("GET", "/protection/status").json()["targets"]
        return any((t["connector_id"], t["state"]) == (self.connector_id, "enforced") for t in found)

    def _url(self) -> str:
        return urlunsplit(urlsplit(self._platform.database_url)._replace(path=f"/{self.database}"))


def _make_table(connection: psycopg.Connection[Any], name: str, analyst: str) -> None:
    columns = sql.SQL(", ").join(
        sql.SQL("{} text").format(sql.Identifier(f"c{n}")) for n in range(PROTECTED + FREE)
    )
    table = sql.Identifier(name)
    connection.execute(sql.SQL("CREATE TABLE {} (id integer PRIMARY KEY, {})").format(table, columns))
    values = sql.SQL(", ").join([sql.Literal("value")] * (PROTECTED + FREE))
    connection.execute(sql.SQL("INSERT INTO {} VALUES (1, {})").format(table, values))
    connection.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(table, sql.Identifier(analyst)))
