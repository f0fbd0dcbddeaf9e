"""A moment of the database to recompute effective tags from, and the repair of what is not as it must be."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from lily.domain.errors import Unavailable
from lily.repositories.postgres.queries import load

_SQL = load("rebuild.sql")
_WAIT_SECONDS = 60.0
_PAUSE_SECONDS = 0.2
#: A table is read in parts of so many pages: 160 MB.
_PART = 20_000

Tag = tuple[str, str]  # tenant and tag


@dataclass(frozen=True)
class Moment:
    """A snapshot others can read too while it is open, in which propagation had followed everything."""

    connection: psycopg.Connection[Any]
    snapshot: str
    positions: dict[str, int]
    tenant: str

    def parts(self, table: str) -> list[str]:
        """Conditions on `a`, each a part of the table."""
        row = self.connection.execute(_SQL["pages"], {"table": table}).fetchone()
        pages = int(row[0]) if row else 0
        return [
            f"a.ctid >= '({first},0)'::tid AND a.ctid < '({first + _PART},0)'::tid"
            for first in range(0, max(pages, 1), _PART)
        ]

    def query(self, name: str, part: str) -> str:
        """A query of rebuild.sql for a part of its table, as text: JDBC takes no parameters for it."""
        name_of_tenant = self.tenant.replace("'", "''")
        tenant = f"a.tenant_id = '{name_of_tenant}'" if self.tenant else "true"
        return _SQL[name].format(tenant=tenant, part=part)

    def unrooted(self) -> dict[Tag, int]:
        """How many facts of a tag rest on nothing that is asserted."""
        rows = self.connection.execute(_SQL["unrooted"]).fetchall()
        return {(row[0], row[1]): int(row[2]) for row in rows if self.tenant in ("", row[0])}


@contextmanager
def settled_moment(url: str, tenant: str = "") -> Iterator[Moment]:
    """Wait for a moment in which everything said has been followed; `Unavailable` when none comes."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            with connection.transaction():
                lanes = connection.execute(_SQL["positions"]).fetchall()
                if all(followed >= last for _, followed, last in lanes):
                    row = connection.execute("SELECT pg_export_snapshot()").fetchone()
                    positions = {lane: int(followed) for lane, followed, _ in lanes if followed}
                    yield Moment(connection, row[0] if row else "", positions, tenant)
                    return
        time.sleep(_PAUSE_SECONDS)
    raise Unavailable(
        "propagation has not caught up for a minute; see with `./lily status` whether the pipeline runs"
    )


@dataclass(frozen=True)
class Repair:
    """What is to be put right; facts are replaced for every tag that is wrong somewhere."""

    tags: Sequence[Tag] = ()
    facts: Iterable[tuple[Any, ...]] = ()
    edges: Sequence[tuple[Any, ...]] = ()
    gone_edges: Sequence[tuple[Any, ...]] = ()
    pairs: Sequence[tuple[Any, ...]] = ()
    gone_pairs: Sequence[tuple[Any, ...]] = ()

    def apply(self, url: str, positions: dict[str, int], cause: UUID) -> bool:
        """Put it right in one transaction; false, and nothing done, when propagation has gone on since."""
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            held = {lane: int(seq) for lane, seq in cursor.execute(_SQL["hold_positions"]).fetchall()}
            if held != positions:
                connection.rollback()
                return False
            cursor.executemany(_SQL["delete_edge"], self.gone_edges)
            cursor.executemany(_SQL["put_edge"], self.edges)
            cursor.executemany(_SQL["delete_pair"], self.gone_pairs)
            cursor.executemany(_SQL["put_pair"], self.pairs)
            self._replace_facts(cursor, cause)
            cursor.execute(_SQL["notify"])
        return True

    def _replace_facts(self, cursor: psycopg.Cursor[Any], cause: UUID) -> None:
        cursor.execute(_SQL["create_rebuilt"])
        cursor.executemany("INSERT INTO rebuilt_tags VALUES (%s, %s)", self.tags)
        with cursor.copy("COPY rebuilt FROM STDIN") as copy:
            for fact in self.facts:
                copy.write_row(fact)
        cursor.execute(_SQL["take_facts"])
        for name in ("put_facts", "tell_repairs"):
            cursor.execute(_SQL[name], {"cause": cause})
