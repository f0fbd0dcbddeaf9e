"""The database each tenant lives in, for a process that reads for all of them and writes for none."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.tenants import Tenants
from lily.settings import Settings
from lily.tenancy.open_databases import OpenDatabases

#: After a move the old home is read for this long at most; it has everything that happened until then.
_KNOWN_SECONDS = 5.0


class Homes:
    def __init__(self, settings: Settings, tenants: Tenants, shared: Database) -> None:
        self._tenants = tenants
        self._databases = OpenDatabases(settings, tenants, shared)
        self._cells: dict[str, tuple[str, float]] = {}

    async def database_of(self, tenant_id: str) -> Database:
        cell, until = self._cells.get(tenant_id, ("", 0.0))
        if time.monotonic() > until:
            cell = (await self._tenants.find_or_make(tenant_id)).cell
            self._cells[tenant_id] = (cell, time.monotonic() + _KNOWN_SECONDS)
        return (await self._databases.of(cell)).database

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._databases.running():
            yield
