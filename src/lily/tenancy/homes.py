"""The database each tenant lives in, for a process that reads for all of them and writes for none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from lily.domain.errors import Unavailable
from lily.domain.tenants import SHARED
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.tenants import Tenants
from lily.settings import Settings
from lily.tenancy.cells import cell_settings

#: After a move the old home is read for this long at most; it has everything that happened until then.
_KNOWN_SECONDS = 5.0


class Homes:
    def __init__(self, settings: Settings, tenants: Tenants, shared: Database) -> None:
        self._settings = settings
        self._tenants = tenants
        self._open = {SHARED: shared}
        self._cells: dict[str, tuple[str, float]] = {}
        self._stack = AsyncExitStack()
        self._turn = asyncio.Lock()

    async def database_of(self, tenant_id: str) -> Database:
        cell, until = self._cells.get(tenant_id, ("", 0.0))
        if time.monotonic() > until:
            cell = (await self._tenants.find_or_make(tenant_id)).cell
            self._cells[tenant_id] = (cell, time.monotonic() + _KNOWN_SECONDS)
        return self._open.get(cell) or await self._open_cell(cell)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The shared cell's database is open already and stays so."""
        async with self._stack:
            yield

    async def _open_cell(self, name: str) -> Database:
        async with self._turn:
            if name not in self._open:
                cell = await self._tenants.find_cell(name)
                if cell is None:
                    raise Unavailable(f"the cell {name!r} is not there; the tenant moves, try again")
                database = Database(cell_settings(self._settings, cell).database)
                await database.open()
                self._stack.push_async_callback(database.close)
                self._open[name] = database
            return self._open[name]
