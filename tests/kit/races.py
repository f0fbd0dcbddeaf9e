"""People at a database who do not wait for the enforcer: analysts read, an owner changes the schema."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import LiteralString, Self

import psycopg

from kit.enforced import Warehouse
from lily.targets.enforcement.connections import Connection

#: Values of `customers` (and of `buyers`, made of it) and of `orders`: each tells where it comes from.
SECRETS = {"ada@customers": "customers", "bo@customers": "customers", "ada@orders": "orders"}
_MAKE_ORDERS: LiteralString = """
CREATE TABLE public.orders (id integer PRIMARY KEY, customer integer, email text, total numeric);
INSERT INTO public.orders VALUES (1, 1, 'ada@orders', 5)
"""
TABLES: LiteralString = f"""
CREATE TABLE customers (id integer PRIMARY KEY, name text NOT NULL, email text);
INSERT INTO customers VALUES (1, 'Ada', 'ada@customers'), (2, 'Bo', 'bo@customers');
{_MAKE_ORDERS};
CREATE VIEW buyers AS SELECT c.id, c.email, o.total FROM customers c JOIN orders o ON o.customer = c.id
"""
#: Each is one transaction; what does not fit the moment fails, and something else is tried.
_CHANGES: tuple[tuple[LiteralString, ...], ...] = (
    ("GRANT SELECT ON public.customers TO {analysts}", "GRANT SELECT ON public.orders TO {analysts}"),
    ("GRANT SELECT (email) ON public.orders TO {bob}",),
    ("GRANT SELECT (email) ON public.customers TO {ana}",),
    ("GRANT SELECT (mail) ON public.old_customers TO {ana}",),
    ("GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC",),
    ("REVOKE SELECT ON public.orders FROM PUBLIC",),
    ("ALTER TABLE public.customers ADD COLUMN phone text",),
    ("ALTER TABLE public.customers RENAME email TO mail",),
    ("ALTER TABLE public.customers RENAME mail TO email",),
    (
        "ALTER TABLE public.customers RENAME name TO other",
        "ALTER TABLE public.customers RENAME email TO name",
        "ALTER TABLE public.customers RENAME other TO email",
    ),
    ("ALTER TABLE public.customers RENAME TO old_customers",),
    ("ALTER TABLE public.old_customers RENAME TO customers",),
    ("ALTER TABLE public.old_customers RENAME TO customers",),
    (
        "CREATE OR REPLACE VIEW public.peek AS SELECT * FROM public.customers",
        "GRANT SELECT ON public.peek TO PUBLIC",
    ),
    (
        "CREATE OR REPLACE VIEW public.buyers AS"
        " SELECT c.id, c.email, o.total FROM public.customers c, public.orders o",
        "GRANT SELECT ON public.buyers TO {analysts}",
    ),
    ("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO PUBLIC",),
    ("ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE SELECT ON TABLES FROM PUBLIC",),
    (
        "ALTER TABLE public.orders RENAME TO old_orders",
        "CREATE TABLE public.orders AS SELECT * FROM public.old_orders",
        "GRANT SELECT ON public.orders TO PUBLIC",
        "DROP TABLE public.old_orders CASCADE",
    ),
    (
        "ALTER TABLE public.orders DROP COLUMN email CASCADE",
        "ALTER TABLE public.orders ADD COLUMN email text DEFAULT 'ada@orders'",
        "GRANT SELECT (email) ON public.orders TO {analysts}",
    ),
    ("DROP TABLE public.orders CASCADE",),
    (_MAKE_ORDERS, "GRANT SELECT ON public.orders TO PUBLIC"),
    (_MAKE_ORDERS, "GRANT SELECT ON public.orders TO PUBLIC"),
)


class Promise:
    """Whether the values of a table must not be seen; a number that is odd while they must not."""

    def __init__(self) -> None:
        self._eras = dict.fromkeys(SECRETS.values(), 0)

    def give(self, table: str) -> None:
        if self._eras[table] % 2 == 0:
            self._eras[table] += 1

    def lift(self) -> None:
        for table, era in self._eras.items():
            self._eras[table] = era + era % 2

    def eras(self) -> dict[str, int]:
        return dict(self._eras)


class Somebody(ABC):
    """Does something on a connection of their own, again and again, until it is over."""

    def __init__(self, warehouse: Warehouse, role: str, seed: int) -> None:
        self._warehouse = warehouse
        self._session = warehouse.connect(role)
        self._chance = random.Random(f"{role} {seed}")
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._go_on)
        self.times = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._is_over.is_set():
            self._act(self._session)

    @abstractmethod
    def _act(self, session: Connection) -> None: ...


class Analyst(Somebody):
    """Asks for everything, in every way there is, and notes what should not have been shown.

    A statement that began before the promise was given, or ends after it was lifted, does not count.
    """

    def __init__(self, warehouse: Warehouse, role: str, seed: int, promise: Promise, views: bool) -> None:
        super().__init__(warehouse, role, seed)
        self._promise = promise
        self._relations = ("customers", "orders", "buyers", "old_customers", *(["peek"] if views else []))
        self.leaks: list[str] = []
        self.seen: set[object] = set()

    def _act(self, session: Connection) -> None:
        with suppress(psycopg.Error), session.transaction():
            for _ in range(self._chance.choice((1, 1, 1, 3))):
                with suppress(psycopg.Error), session.transaction():
                    self._read(session)
            if self._chance.random() < 0.05:
                time.sleep(0.08)  # in the way of whoever changes a view

    def _read(self, session: Connection) -> None:
        relation = self._chance.choice(self._relations)
        place = self._chance.choice(("", "public.", "lily_masked_public."))
        column = self._chance.choice(("*", "email", "mail", "name", "id"))
        query = f"SELECT {column} FROM {place}{relation}"
        before = self._promise.eras()
        rows = session.execute(query).fetchall()
        after = self._promise.eras()
        self.times += 1
        shown = {value for row in rows for value in row if value in SECRETS}
        self.seen |= shown
        for table in {SECRETS[value] for value in shown}:
            if before[table] % 2 == 1 and before[table] == after[table]:
                self.leaks.append(f"{query}: {sorted(shown)}")


class Owner(Somebody):
    """Grants, renames, replaces, in transactions that last, some of which see the database as it was."""

    def _act(self, session: Connection) -> None:
        changes = self._chance.choice(_CHANGES)
        session.isolation_level = self._chance.choice(
            (psycopg.IsolationLevel.READ_COMMITTED,) * 3 + (psycopg.IsolationLevel.REPEATABLE_READ,)
        )
        with suppress(psycopg.Error):
            with session.transaction(force_rollback=self._chance.random() < 0.1):
                session.execute("SELECT FROM pg_class LIMIT 1")
                for change in changes:
                    time.sleep(self._chance.choice((0, 0, 0.002, 0.02)))
                    session.execute(self._warehouse.named(change))
                time.sleep(self._chance.choice((0, 0, 0.002, 0.03)))
            self.times += 1
