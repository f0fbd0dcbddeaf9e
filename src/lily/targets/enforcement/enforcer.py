"""Keeps every registered database as protection rules and effective tags want it; one process leads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import psycopg
import structlog
from confluent_kafka import KafkaException

from lily.domain.connectors import Connector
from lily.domain.errors import LilyError
from lily.log.changes import ChangeFeed, ChangeRecord
from lily.repositories.postgres.announcements import Announcement, Announcements
from lily.repositories.postgres.connectors import ANNOUNCED, PostgresConnectors
from lily.repositories.postgres.enforcement import ASKED, EnforcementLedger, TargetState
from lily.repositories.postgres.protection_rules import PROTECTION
from lily.repositories.postgres.salts import ProtectionSalts
from lily.targets.enforcement.scrapes import OrderScrape
from lily.targets.enforcement.targets import TYPE, Reaches, Target, access_of, is_enforced, is_wanted
from lily.targets.enforcement.wanted import Wishes
from lily.targets.enforcement.workers import Worker, WorkerParts

#: Any number that every enforcer uses and nothing else does.
_LOCK = 0x4C494C5945
_LOOK_SECONDS = 2.0
_POLL_SECONDS = 5.0
_MOST_SKIMMED = 5000
#: After so long it is tried again to look after a connector for which it failed.
_AGAIN_SECONDS = 30.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class EnforcerParts:
    connectors: PostgresConnectors
    salts: ProtectionSalts
    wishes: Wishes
    ledger: EnforcementLedger
    announcements: Announcements
    #: The changes from now on.
    open_feed: Callable[[], ChangeFeed]
    reach: Reaches
    order_scrape: OrderScrape


class Enforcer:
    """Runs in one process at a time; the others wait."""

    def __init__(self, parts: EnforcerParts, url: str) -> None:
        self._parts = parts
        self._url = url
        self._workers: dict[tuple[str, str], tuple[Worker, asyncio.Task[None]]] = {}
        self._stale = asyncio.Event()
        self._has_workers = asyncio.Event()
        parts.announcements.subscribe(self._hear)

    async def run(self) -> None:
        while True:
            try:
                async with self._leading() as connection:
                    await self._lead(connection)
            except Exception as error:  # whatever it is, what is told to people goes on
                _log.warning("enforcement_interrupted", error=f"{type(error).__name__}: {error}".strip())
                await asyncio.sleep(_LOOK_SECONDS)

    @asynccontextmanager
    async def _leading(self) -> AsyncIterator[psycopg.AsyncConnection]:
        """Entered when no other process leads."""
        async with await psycopg.AsyncConnection.connect(
            self._url, autocommit=True, connect_timeout=5, application_name="lily-enforcer"
        ) as connection:
            # Asked for again and again: a statement that waits would keep PostgreSQL from vacuuming.
            while not await self._leads(connection):
                await asyncio.sleep(_LOOK_SECONDS)
            yield connection

    async def _leads(self, connection: psycopg.AsyncConnection) -> bool:
        answer = await connection.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,))
        return await answer.fetchone() == (True,)

    async def _lead(self, leading: psycopg.AsyncConnection) -> None:
        beside = [asyncio.create_task(each) for each in (self._follow(), self._hold(leading))]
        try:
            self._stale.set()
            while not any(task.done() for task in beside):
                await self._stale.wait()
                self._stale.clear()
                await self._open_workers()
            for task in beside:
                if task.done():
                    task.result()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await self._end(list(self._workers))

    async def _follow(self) -> None:
        """Tell the workers what changes. While the log is away they still follow rules, and repair. Without
        any, it is not read."""
        try:
            while True:
                await self._has_workers.wait()
                try:
                    feed = await asyncio.to_thread(self._parts.open_feed)
                except (LilyError, KafkaException) as error:
                    _log.warning("log_not_followed", error=str(error))
                    await asyncio.sleep(_LOOK_SECONDS)
                    continue
                try:
                    # What changed before the place the feed begins at is read from the database.
                    for worker in self._of(None):
                        worker.tell_everything("start")
                    await self._read(feed)
                finally:
                    await asyncio.to_thread(feed.close)
        finally:
            self._stale.set()

    async def _read(self, feed: ChangeFeed) -> None:
        while self._workers:
            skimmed = await asyncio.to_thread(feed.skim, _POLL_SECONDS, _MOST_SKIMMED)
            protected = {tenant_id for tenant_id, _ in self._workers}
            for tenant_id, assets in _changed(skimmed.records(protected)).items():
                for worker in self._of(tenant_id):
                    worker.tell_assets(assets)

    async def _hold(self, leading: psycopg.AsyncConnection) -> None:
        """Ends when the lock is lost with its connection; nothing is ever told on it."""
        try:
            async for _ in leading.notifies():
                pass
        finally:
            self._stale.set()

    def _hear(self, told: Announcement | None) -> None:
        if told is None or told.kind == ANNOUNCED:
            self._stale.set()
        if told is None or told.kind == PROTECTION:
            for worker in self._of(told.tenant_id if told else None):
                worker.tell_everything("rules")
        elif told.kind == ASKED:
            for worker in self._of(told.tenant_id):
                if worker.access.connector_id == told.key:
                    worker.tell_everything("request")

    def _of(self, tenant_id: str | None) -> Iterable[Worker]:
        return [worker for key, (worker, _) in self._workers.items() if tenant_id in (None, key[0])]

    async def _open_workers(self) -> None:
        found = {
            (each.tenant_id, each.connector_id): each
            for each in await self._parts.connectors.everywhere([TYPE])
        }
        for key, connector in found.items():
            try:
                await self._look_after(key, connector)
            except Exception as error:  # such as a secret nobody can read: one tenant's trouble is no other's
                await self._tell_trouble(key, error)
        await self._end([key for key in self._workers if key not in found])
        if self._workers:
            self._has_workers.set()

    async def _look_after(self, key: tuple[str, str], connector: Connector) -> None:
        if connector.is_disabled and is_wanted(connector):
            await self._end([key] if key in self._workers else [])
            return
        secrets = await self._parts.connectors.secrets_of(connector)
        access = access_of(connector, secrets, await self._parts.salts.of(connector.tenant_id))
        running = self._workers.get(key)
        if running and running[0].access == access:
            return
        await self._end([key] if running else [])
        parts = WorkerParts(
            lambda: Target(access, self._parts.reach),
            self._parts.wishes,
            self._parts.ledger,
            self._parts.order_scrape,
        )
        worker = Worker(access, parts)
        if is_enforced(connector):
            self._workers[key] = worker, asyncio.create_task(worker.run())
        elif [each for each in await self._parts.ledger.targets(*key) if each.state != "released"]:
            self._workers[key] = worker, asyncio.create_task(worker.run_release())

    async def _tell_trouble(self, key: tuple[str, str], error: Exception) -> None:
        """What runs for this connector goes on with what it knows."""
        tenant_id, connector_id = key
        text = f"{type(error).__name__}: {error}".strip()
        _log.warning("connector_not_enforced", connector_id=connector_id, error=text)
        if key not in self._workers:
            with suppress(LilyError, psycopg.Error):
                state = TargetState(connector_id, "unreachable", {"error": text[:500]})
                await self._parts.ledger.tell(tenant_id, state)
        asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._stale.set)

    async def _end(self, keys: list[tuple[str, str]]) -> None:
        ended = [self._workers.pop(key)[1] for key in keys if key in self._workers]
        if not self._workers:
            self._has_workers.clear()
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)


def _changed(records: Iterable[ChangeRecord]) -> dict[str, set[str]]:
    """The assets something happened to that can matter for protection, by tenant."""
    found: dict[str, set[str]] = {}
    for record in records:
        if record.event_type in ("io.lily.asset.changed.v1", "io.lily.tags.changed.v1"):
            asset_id = json.loads(record.value).get("asset_id")
            if asset_id:
                found.setdefault(record.tenant_id, set()).add(asset_id)
    return found
