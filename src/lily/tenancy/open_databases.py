"""The databases of the cells a process works with, each opened when it is first asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from lily.domain.errors import Unavailable
from lily.domain.tenants import SHARED
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.tenants import Tenants
from lily.settings import Settings
from lily.tenancy.cells import cell_settings


@dataclass(frozen=True)
class OpenDatabase:
    """A cell's database, and the settings that lead to all of the cell."""

    settings: Settings
    database: Database


class OpenDatabases:
    """The shared cell's is open already and stays so."""

    def __init__(self, settings: Settings, tenants: Tenants, shared: Database) -> None:
        self._settings = settings
        self._tenants = tenants
        self._open = {SHARED: OpenDatabase(settings, shared)}
        self._stack = AsyncExitStack()
        self._turn = asyncio.Lock()

    async def of(self, cell: str) -> OpenDatabase:
        return self._open.get(cell) or await self._open_cell(cell)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._stack:
            yield

    async def _open_cell(self, name: str) -> OpenDatabase:
        async with self._turn:
            if name not in self._open:
                cell = await self._tenants.find_cell(name)
                if cell is None:
                    raise Unavailable(
                        f"the cell {name!r} is not there; the tenant is about to move, try again"
                    )
                settings = cell_settings(self._settings, cell)
                database = Database(settings.database)
                await database.open()
                self._stack.push_async_callback(database.close)
                self._open[name] = OpenDatabase(settings, database)
            return self._open[name]
