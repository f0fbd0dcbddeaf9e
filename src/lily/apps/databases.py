"""The databases a command reads: the shared cell's, and through it the one each tenant lives in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from lily.repositories.postgres.pool import Database, TenantDatabase
from lily.repositories.postgres.tenants import Tenants
from lily.settings import Settings
from lily.tenancy.homes import Homes


class CommandDatabases(NamedTuple):
    settings: Settings
    shared: Database
    homes: Database


@asynccontextmanager
async def open_databases(settings: Settings) -> AsyncIterator[CommandDatabases]:
    database = Database(settings.database)
    homes = Homes(settings, Tenants(database), database)
    await database.open()
    try:
        async with homes.running():
            yield CommandDatabases(settings, database, TenantDatabase(database, homes.database_of))
    finally:
        await database.close()
