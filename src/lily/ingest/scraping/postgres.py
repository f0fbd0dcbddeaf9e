"""The source PostgreSQL: one database's schemas, tables, columns, views with their lineage, and grants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg.rows import tuple_row

from lily.domain.connectors import SAFE_AUTH
from lily.domain.scraping import Found, FoundLineage, Target
from lily.ingest.scraping.postgres_catalogs import Catalog, Relation, Row
from lily.ingest.scraping.sources import SourceRefused, SourceUnreachable
from lily.ingest.scraping.view_lineage import View, generated, inherited
from lily.repositories.postgres.queries import load

_QUERIES = load("postgres.sql", __package__)
_CONNECT_SECONDS = 10
_STATEMENT_MS = 300_000
_ROWS = 5000
_SETTINGS: tuple[LiteralString, ...] = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET LOCAL search_path = ''",
    f"SET LOCAL statement_timeout = {_STATEMENT_MS}",
    "SET LOCAL jit = off",
)
#: What a server says that is busy, not unwilling.
_PASSING = ("starting up", "shutting down", "too many", "remaining connection slots", "recovery")


def scrape(target: Target) -> Generator[Found]:
    """Everything in the database, as of one moment; values of columns are never read."""
    try:
        with _connected(target) as connection:
            yield from _Reading(connection, target).found()
    except psycopg.errors.InsufficientPrivilege as error:
        raise SourceRefused(
            f"the database does not let {target.config.get('user')!r} read its catalog: {_line(error)}"
        ) from None
    except psycopg.OperationalError as error:
        raise _unreachable(error, target.config) from None
    except psycopg.Error as error:  # such as a view that was dropped while it was read
        raise SourceUnreachable(f"the catalog cannot be read: {_line(error)}; it is tried again") from None


@contextmanager
def _connected(target: Target) -> Iterator[psycopg.Connection[Row]]:
    config = target.config
    host, port = str(config["host"]), int(config.get("port", 5432))
    with psycopg.connect(
        host=host,
        hostaddr=target.reach(host, port),
        port=port,
        dbname=config["database"],
        user=config["user"],
        password=target.secrets.get("secret", ""),
        sslmode=config.get("sslmode", "prefer"),
        require_auth=config.get("require_auth", SAFE_AUTH),
        connect_timeout=_CONNECT_SECONDS,
        application_name="lily-scraper",
        client_encoding="UTF8",
        row_factory=tuple_row,
    ) as connection:
        for setting in _SETTINGS:
            connection.execute(setting)
        yield connection


class _Reading:
    """One pass over the catalog."""

    def __init__(self, connection: psycopg.Connection[Row], target: Target) -> None:
        self._connection = connection
        self._wanted = target.config.get("schemas")
        self._catalog = Catalog(target.connector_id, self._rows("roles"))

    def found(self) -> Iterator[Found]:
        catalog = self._catalog
        yield from map(catalog.database, self._rows("database"))
        schemas = list(self._rows("schemas", schemas=self._wanted))
        yield from map(catalog.schema, schemas)
        oids = [row[0] for row in schemas]
        yield from map(catalog.relation, self._rows("relations", schemas=oids))
        for row in self._rows("columns", schemas=oids):
            column = catalog.column(row)
            if column is not None:
                yield column
        yield from self._inheritance()
        yield from self._generated()
        for oid, text, uses in self._rows("views", schemas=oids):
            if oid in catalog.relations and text:
                used = {each: catalog.relations[each] for each, _ in uses if each in catalog.relations}
                yield View(catalog.relations[oid], text, used, [tuple(use) for use in uses]).lineage()

    def _inheritance(self) -> Iterator[FoundLineage]:
        relations = self._catalog.relations
        parents: dict[int, list[Relation]] = defaultdict(list)
        for parent, child in self._rows("inheritance"):
            if parent in relations and child in relations:
                parents[child].append(relations[parent])
        for child, of_child in parents.items():
            yield inherited(relations[child], of_child)

    def _generated(self) -> Iterator[FoundLineage]:
        for oid, number, sources in self._rows("generated"):
            relation = self._catalog.relations.get(oid)
            if relation is not None and number in relation.columns:
                yield generated(relation, number, sources)

    def _rows(self, query: str, **values: Any) -> Iterator[Row]:
        """The rows, fetched in pieces: a catalog may have millions."""
        with self._connection.cursor(name=f"lily_{query}") as cursor:
            cursor.itersize = _ROWS
            cursor.execute(_QUERIES[query], values)
            yield from cursor


def _unreachable(error: psycopg.OperationalError, config: Mapping[str, Any]) -> Exception:
    place, said = f"{config.get('host')}:{config.get('port', 5432)}", _line(error)
    if "FATAL" in said and not any(each in said for each in _PASSING):
        return SourceRefused(
            f"PostgreSQL at {place} refuses: {said}; change the connector's config or secret"
        )
    return SourceUnreachable(f"PostgreSQL at {place} does not answer: {said}; check host, port and network")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
