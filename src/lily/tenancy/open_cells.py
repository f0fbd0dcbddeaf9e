"""The cells a process of the gateway works with: opened when the first of their tenants asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from lily.domain.tenants import SHARED
from lily.repositories.postgres.idempotency import IdempotencyKeys
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.tenants import Tenants
from lily.repositories.postgres.visibility import Visibility
from lily.settings import Settings
from lily.tenancy.open_databases import OpenDatabases
from lily.tenancy.routes import TenantRoutes


@dataclass(frozen=True)
class OpenCell:
    """A cell's parts, as the gateway uses them."""

    topic_prefix: str
    database: Database
    visibility: Visibility
    keys: IdempotencyKeys


def cell_parts(settings: Settings, database: Database) -> OpenCell:
    return OpenCell(settings.kafka.topic_prefix, database, Visibility(database), IdempotencyKeys(database))


class OpenCells:
    """The shared cell, and every dedicated one that was asked for."""

    def __init__(self, settings: Settings, routes: TenantRoutes, tenants: Tenants, shared: Database) -> None:
        self.routes = routes
        self._databases = OpenDatabases(settings, tenants, shared)
        self._stack = AsyncExitStack()
        self._turn = asyncio.Lock()
        self._open = {SHARED: cell_parts(settings, shared)}

    async def of(self, tenant_id: str) -> OpenCell:
        """The cell this tenant lives in."""
        tenant = await self.routes.of(tenant_id)
        return self._open.get(tenant.cell) or await self._open_cell(tenant.cell)

    async def database_of(self, tenant_id: str) -> Database:
        return (await self.of(tenant_id)).database

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._databases.running(), self._stack:
            await self._start(self._open[SHARED])
            yield

    async def _open_cell(self, name: str) -> OpenCell:
        async with self._turn:
            if name not in self._open:
                home = await self._databases.of(name)
                opened = cell_parts(home.settings, home.database)
                await self._start(opened)
                self._open[name] = opened
            return self._open[name]

    async def _start(self, cell: OpenCell) -> None:
        await self._stack.enter_async_context(cell.keys.running())
        await self._stack.enter_async_context(cell.visibility.running())
