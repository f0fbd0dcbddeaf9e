"""Where each tenant lives, as one process of the gateway knows it: learnt on first use, told of every change.

A tenant that moves must not be written to by anybody who has not heard of it. So every process tells each
second that it lives and for whom it has stopped writing, and one that could not tell for a while stops by
itself.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from uuid import uuid4

import psycopg
import structlog

from lily.domain.errors import Unavailable
from lily.domain.tenants import State
from lily.repositories.postgres.pool import connection_arguments
from lily.repositories.postgres.tasks import beside
from lily.repositories.postgres.tenants import CHANNEL, Tenant, Tenants
from lily.tenancy.quotas import Quotas

BEAT_SECONDS = 1.0
#: Who did not beat for this long writes no more; who moves a tenant waits longer (moves.WORKER_SECONDS).
LEASE_SECONDS = 8.0
_RECONNECT_SECONDS = 0.5

_log = structlog.get_logger(__name__)


class TenantRoutes:
    """The tenants this process has met, and what is being written for them."""

    def __init__(self, tenants: Tenants, quotas: Quotas, url: str) -> None:
        self._tenants = tenants
        self._url = url
        self.quotas = quotas
        self._worker = uuid4()
        self._known: dict[str, Tenant] = {}
        self._told: Counter[str] = Counter()
        self._writing: Counter[str] = Counter()
        self._beat_soon = asyncio.Event()
        self._beaten_at = float("-inf")

    async def of(self, tenant_id: str) -> Tenant:
        """The tenant; asked for once, and again after every change."""
        return self._known.get(tenant_id) or await self._learn(tenant_id)

    def known(self, tenant_id: str) -> Tenant | None:
        """The tenant, if this process has met it."""
        return self._known.get(tenant_id)

    @contextmanager
    def writing(self, tenant: Tenant) -> Iterator[None]:
        """Hold the tenant where it is while something is written; `Unavailable` while it moves."""
        tenant_id = tenant.tenant_id
        current = self._known.get(tenant_id, tenant)
        if current.state is not State.ACTIVE or current.cell != tenant.cell:
            raise Unavailable("the tenant is moving to another place; nothing was accepted, try again")
        if time.monotonic() - self._beaten_at > LEASE_SECONDS:
            raise Unavailable("PostgreSQL does not answer, and who may be written is not certain; try again")
        self._writing[tenant_id] += 1
        try:
            yield
        finally:
            self._writing[tenant_id] -= 1
            if not self._writing[tenant_id]:
                del self._writing[tenant_id]
                if self._known.get(tenant_id, tenant).state is not State.ACTIVE:
                    self._beat_soon.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen and beat while the context is open."""
        with suppress(Unavailable, psycopg.Error):
            await self._beat()
        async with beside(self._listen(), self._beat_forever()):
            yield

    async def _learn(self, tenant_id: str) -> Tenant:
        while True:
            told = self._told[tenant_id]
            tenant = await self._tenants.find_or_make(tenant_id)
            if told == self._told[tenant_id]:  # else it changed while we asked
                self._known[tenant_id] = tenant
                return tenant

    async def _listen(self) -> None:
        while True:
            with suppress(psycopg.Error, OSError, Unavailable):
                await self._listen_until_lost()
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen_until_lost(self) -> None:
        connection = await psycopg.AsyncConnection.connect(self._url, **connection_arguments())
        async with connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            for tenant_id in list(self._known):  # what was told while nobody listened
                await self._hear(tenant_id)
            async for notice in connection.notifies():
                tenant_id, _, state = notice.payload.rpartition(" ")
                if state == "deleted":
                    self._told[tenant_id] += 1
                    self._known.pop(tenant_id, None)
                elif tenant_id in self._known or state != State.ACTIVE:
                    await self._hear(tenant_id)

    async def _hear(self, tenant_id: str) -> None:
        self._told[tenant_id] += 1
        tenant = await self._learn(tenant_id)
        if tenant.state is not State.ACTIVE:
            self._beat_soon.set()

    async def _beat_forever(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._beat_soon.wait()
            self._beat_soon.clear()
            try:
                await self._beat()
            except (Unavailable, psycopg.Error) as error:
                _log.warning("beat_missed", error=str(error))

    async def _beat(self) -> None:
        began = time.monotonic()
        paused = [
            tenant_id
            for tenant_id, tenant in self._known.items()
            if tenant.state is not State.ACTIVE and not self._writing[tenant_id]
        ]
        self.quotas.set_shares(await self._tenants.beat(self._worker, paused, self.quotas.demands()))
        self._beaten_at = began
