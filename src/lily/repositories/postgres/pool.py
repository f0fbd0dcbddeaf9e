"""Connections to PostgreSQL for readers: bounded in number and in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, LiteralString

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from lily.domain.errors import Unavailable
from lily.settings import DatabaseSettings

CONNECT_SECONDS = 2
STATEMENT_MS = 5000
_OPTIONS = f"-c timezone=UTC -c statement_timeout={STATEMENT_MS} -c jit=off"

Row = tuple[Any, ...]


def connection_arguments() -> dict[str, Any]:
    return {
        "autocommit": True,
        "connect_timeout": CONNECT_SECONDS,
        "options": _OPTIONS,
        "application_name": "lily-gateway",
    }


class Database:
    """Runs single statements; a PostgreSQL that does not answer is `Unavailable` within two seconds."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self.url = settings.url.get_secret_value()
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
        """All rows. After a restart of PostgreSQL the dead connections are dropped and it is asked again."""
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
        async with self._pool.connection() as connection:
            cursor = await connection.execute(statement, parameters)
            return await cursor.fetchall() if cursor.description else []


def unavailable(error: Exception) -> Unavailable:
    return Unavailable(f"PostgreSQL does not answer ({type(error).__name__}); try again", part="postgres")
