"""Work of the gateway that runs beside its requests, on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, LiteralString

import psycopg

from lily.domain.errors import Unavailable
from lily.repositories.postgres.pool import Database

_FORGET_SECONDS = 3600


@asynccontextmanager
async def beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do this work while the context is open, and have ended it when the context is closed."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def forget_forever(database: Database, query: LiteralString, values: Mapping[str, Any]) -> None:
    """Run a query that forgets what is old, every hour; one that fails is made up for by the next."""
    while True:
        await asyncio.sleep(_FORGET_SECONDS)
        with suppress(Unavailable, psycopg.Error):
            await database.fetch(query, values)
