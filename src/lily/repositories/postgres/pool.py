"""The gateway's connections to PostgreSQL: bounded in number and in time, and each statement to one tenant.

The gateway's role sees no row of any tenant by itself. A statement is bound to the tenant in its parameter
`tenant_id`, for itself alone: the connection goes back to the pool without a tenant.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, LiteralString

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from lily.domain.errors import Unavailable
from lily.settings import DatabaseSettings

CONNECT_SECONDS = 2
STATEMENT_MS = 5000
# `Edges.json` takes times as they are written: ISO, in UTC.
_OPTIONS = f"-c timezone=UTC -c datestyle=ISO -c statement_timeout={STATEMENT_MS} -c jit=off"

Row = tuple[Any, ...]
Connection = psycopg.AsyncConnection[Row]


def connection_arguments() -> dict[str, Any]:
    return {
        "autocommit": True,
        "connect_timeout": CONNECT_SECONDS,
        "options": _OPTIONS,
        "application_name": "lily-gateway",
    }


_BIND: LiteralString = "SELECT set_config('lily.tenant', %(tenant_id)s, true)"
_WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE|MERGE)\b")


class Database:
    """Runs statements as the gateway's role; a PostgreSQL that does not answer is `Unavailable` within two
    seconds."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self.url = settings.gateway_url
        self._pool = AsyncConnectionPool(
            self.url,
            kwargs=connection_arguments(),
            min_size=min(2, settings.pool_size),
            max_size=settings.pool_size,
            timeout=CONNECT_SECONDS,
            # Short, so that the pool does not sleep for minutes after PostgreSQL was away for minutes.
            reconnect_timeout=CONNECT_SECONDS,
            open=False,
        )

    async def open(self) -> None:
        await self._pool.open(wait=False)

    async def close(self) -> None:
        await self._pool.close()

    async def fetch(self, statement: LiteralString, parameters: Mapping[str, Any]) -> list[Row]:
        """All rows, those of the tenant in the parameter `tenant_id` alone; without it, of no tenant.

        After a restart of PostgreSQL the dead connections are dropped and it is asked again.
        """
        try:
            try:
                return await self._fetch(statement, parameters)
            except psycopg.OperationalError as error:
                if isinstance(error, PoolTimeout | psycopg.errors.QueryCanceled):
                    raise
                await self._pool.check()
                return await self._fetch(statement, parameters)
        except psycopg.OperationalError as error:
            raise unavailable(error) from error

    async def _fetch(self, statement: LiteralString, parameters: Mapping[str, Any]) -> list[Row]:
        tenant_id = parameters.get("tenant_id")
        if tenant_id is not None and _WRITES.search(statement):
            async with self._transaction(tenant_id) as connection:
                return await _rows(connection, statement, parameters)
        async with self._pool.connection() as connection:
            bound = statement if tenant_id is None else bind(statement)
            return await _rows(connection, bound, parameters)

    @asynccontextmanager
    async def transaction(self, tenant_id: str) -> AsyncIterator[Connection]:
        """A transaction bound to this tenant, for several statements that belong together."""
        try:
            async with self._transaction(tenant_id) as connection:
                yield connection
        except psycopg.OperationalError as error:
            raise unavailable(error) from error

    @asynccontextmanager
    async def _transaction(self, tenant_id: str) -> AsyncIterator[Connection]:
        async with self._pool.connection() as connection, connection.transaction():
            await connection.execute(_BIND, {"tenant_id": tenant_id})
            yield connection


class TenantDatabase(Database):
    """The database of the cell each tenant lives in; what names no tenant goes to the shared cell's."""

    def __init__(self, shared: Database, home_of: Callable[[str], Awaitable[Database]]) -> None:
        self.url = shared.url
        self._shared = shared
        self._home_of = home_of

    async def fetch(self, statement: LiteralString, parameters: Mapping[str, Any]) -> list[Row]:
        tenant_id = parameters.get("tenant_id")
        home = self._shared if tenant_id is None else await self._home_of(tenant_id)
        return await home.fetch(statement, parameters)

    @asynccontextmanager
    async def transaction(self, tenant_id: str) -> AsyncIterator[Connection]:
        async with (await self._home_of(tenant_id)).transaction(tenant_id) as connection:
            yield connection


@cache
def bind(statement: LiteralString) -> LiteralString:
    """The same question, bound to its tenant in the same statement: no further round trip.

    The answer depends on `bound`, so PostgreSQL must bind before it looks at the first row; and did it not,
    no tenant would be set and nothing would be found (ADR 14).
    """
    return (
        "SELECT answer.* FROM (" + _BIND + " AS tenant OFFSET 0) AS bound "
        "CROSS JOIN LATERAL (SELECT * FROM (\n" + statement + "\n) AS asked "
        "WHERE bound.tenant IS NOT NULL OFFSET 0) AS answer"
    )


async def _rows(connection: Connection, statement: LiteralString, parameters: Mapping[str, Any]) -> list[Row]:
    cursor = await connection.execute(statement, parameters)
    return await cursor.fetchall() if cursor.description else []


def unavailable(error: Exception) -> Unavailable:
    return Unavailable(f"PostgreSQL does not answer ({type(error).__name__}); try again", part="postgres")
