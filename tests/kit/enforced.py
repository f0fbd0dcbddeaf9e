"""A database of somebody else: tables, roles that read and write them, and what its catalog says of them."""

from __future__ import annotations

from typing import Any, LiteralString
from urllib.parse import quote, urlsplit, urlunsplit
from uuid import uuid4

import psycopg
from psycopg import sql

from kit.eventually import eventually
from lily.domain.external_ids import qualified
from lily.domain.masks import Mask
from lily.domain.protection import Effect, Protection
from lily.targets.enforcement.connections import Connection, set_up
from lily.targets.enforcement.preparation import Options, Preparation
from lily.targets.enforcement.workshop import Outcome, Workshop

PASSWORD = "warehouse"
ROLES = ("owner", "analysts", "ana", "bob", "auditor", "writer")

_TABLES = """
CREATE TABLE customers (
    id integer PRIMARY KEY, name text NOT NULL, email varchar(60), born date,
    seen timestamptz DEFAULT now(), score numeric(8, 2)
);
INSERT INTO customers VALUES
    (1, 'Ada', 'ada@example.org', '1815-12-10', '2020-05-17 12:30:00+00', 10.5),
    (2, 'Bo', 'bo@example.org', '1990-02-03', '2021-06-18 13:40:00+00', 20.25);
CREATE TABLE orders (
    id integer PRIMARY KEY, customer integer REFERENCES customers, email text, total numeric
);
INSERT INTO orders VALUES (1, 1, 'ada@example.org', 5), (2, 2, 'bo@example.org', 7);
CREATE VIEW buyers AS SELECT c.id, c.email, o.total FROM customers c JOIN orders o ON o.customer = c.id;
"""

#: Everything an enforced database must show again when nothing is protected any more.
_SNAPSHOT = """
SELECT c.oid::text, n.nspname, c.relname, c.relkind::text, c.relowner::text, c.relacl::text,
       c.reloptions::text,
       (SELECT string_agg(concat_ws(':', a.attnum, a.attname, a.atttypid, a.attacl), ',' ORDER BY a.attnum)
          FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0),
       (SELECT string_agg(t.tgname, ',' ORDER BY t.tgname) FROM pg_trigger t
         WHERE t.tgrelid = c.oid AND NOT t.tgisinternal)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'lily\\_%'
 ORDER BY 1
"""
_WHOLE = """
SELECT concat_ws('|', nspname, nspowner, nspacl) FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_t%'
 UNION ALL SELECT concat_ws('|', d.datname, s.setrole, s.setconfig::text) FROM pg_db_role_setting s
                    JOIN pg_database d ON d.oid = s.setdatabase WHERE d.datname = current_database()
 UNION ALL SELECT evtname FROM pg_event_trigger UNION ALL SELECT proname FROM pg_proc
            WHERE pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
 ORDER BY 1
"""


class Warehouse:
    """Its owner owns all tables; analysts (ana and bob are members) read them, auditor too; writer writes."""

    def __init__(self, server_url: str, tables: LiteralString = _TABLES) -> None:
        self._server_url = server_url
        self._server = psycopg.connect(server_url, autocommit=True)
        self._mark = uuid4().hex[:8]
        self.database = f"warehouse_{self._mark}"
        self.roles = {name: f"{name}_{self._mark}" for name in ROLES}
        self._on_server(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.database)))
        self.admin: Connection = set_up(psycopg.connect(self.url))
        self.boss = psycopg.connect(self.url, autocommit=True)
        self._make_roles()
        database = sql.Identifier(self.database)
        owner = sql.Identifier(self.roles["owner"])
        self.boss.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, owner))
        self.run("GRANT CREATE, USAGE ON SCHEMA public TO {owner}; SET ROLE {owner}")
        self.boss.execute(tables)
        self.run("GRANT SELECT ON customers, buyers TO {analysts}; GRANT SELECT ON orders TO PUBLIC")
        self.run("GRANT SELECT ON customers TO {auditor} WITH GRANT OPTION")
        self.run("GRANT INSERT, UPDATE, DELETE, SELECT ON customers TO {writer}; RESET ROLE")
        self._sessions: list[Connection] = [self.admin, self.boss]

    @property
    def url(self) -> str:
        return urlunsplit(urlsplit(self._server_url)._replace(path=f"/{self.database}"))

    def run(self, statements: LiteralString) -> None:
        """As the database's superuser; roles by their names in braces."""
        self.boss.execute(self.named(statements))

    def named(self, statements: LiteralString) -> sql.Composed:
        return sql.SQL(statements).format(**{n: sql.Identifier(role) for n, role in self.roles.items()})

    def connect(self, role: str) -> Connection:
        """A session of one of the roles, as any client begins it."""
        url = urlsplit(self.url)
        place = url.netloc.rpartition("@")[2]
        user = quote(self.roles[role], safe="")
        session: Connection = psycopg.connect(
            urlunsplit(url._replace(netloc=f"{user}:{PASSWORD}@{place}")), autocommit=True
        )
        self._sessions.append(session)
        return session

    def reopen(self) -> Connection:
        """Lily's connection, anew."""
        self.admin.close()
        self.admin = set_up(psycopg.connect(self.url))
        self._sessions.append(self.admin)
        return self.admin

    def workshop(self, **options: Any) -> Workshop:
        """Lily at work in a prepared database."""
        chosen = Options(salt="salt", **options)
        Preparation(self.admin, chosen).make()
        return Workshop(self.admin, chosen)

    def release(self) -> Outcome:
        chosen = Options(salt="salt")
        outcome = Workshop(self.admin, chosen).release()
        Preparation(self.admin, chosen).drop()
        return outcome

    def column(self, relation: str, column: str, schema: str = "public") -> str:
        """The external id of a column."""
        return qualified(self.database, schema, relation, column)

    def snapshot(self) -> list[Any]:
        return self.boss.execute(_SNAPSHOT).fetchall()

    def whole(self) -> list[Any]:
        return self.snapshot() + self.boss.execute(_WHOLE).fetchall()

    def close(self) -> None:
        for session in self._sessions:
            session.close()
        self._on_server(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(self.database)))
        self._on_server(
            sql.SQL("DROP ROLE {}").format(sql.SQL(", ").join(map(sql.Identifier, self.roles.values())))
        )
        self._server.close()

    def _make_roles(self) -> None:
        for role in self.roles.values():
            statement = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
            self._on_server(statement.format(sql.Identifier(role), sql.Literal(PASSWORD)))
        self.run("GRANT {analysts} TO {ana}, {bob}")

    def _on_server(self, statement: sql.Composed) -> None:
        self._server.execute(statement)


def soon_reads(
    session: Connection, query: LiteralString, rows: list[tuple[Any, ...]], within: float = 20
) -> None:
    """A query that was planned before a mask came, and is carried out after it, is refused: ask again."""
    refused = (psycopg.errors.InsufficientPrivilege,)
    eventually(lambda: session.execute(query).fetchall() == rows, within, refused)


def masked(mask: Mask | None = None, *spared: str, rule: str = "rule") -> Protection:
    return Protection(rule, Effect.MASK, mask or Mask(), except_roles=frozenset(spared))


def denied(*spared: str, rule: str = "rule") -> Protection:
    return Protection(rule, Effect.DENY, Mask(), except_groups=frozenset(spared))


def mails(warehouse: Warehouse) -> dict[str, tuple[Protection, ...]]:
    """Every `email` is masked."""
    return {
        warehouse.column(relation, "email"): (masked(),) for relation in ("customers", "orders", "buyers")
    }


def enforce(workshop: Workshop, protections: dict[str, tuple[Protection, ...]]) -> Outcome:
    """Make the whole database show no more than this."""
    return workshop.apply(workshop.plan(protections))
