"""What scraping needs, wired: the gateway's routes about jobs, and the parts a job sends through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import APIRouter

from lily.access.audit import AuditTrail
from lily.access.decision_points import Access
from lily.access.live_books import LiveBooks
from lily.apps.guards import guard_assets
from lily.domain.tenants import Limits
from lily.ingest.recorder import Recorder
from lily.ingest.rest.scraping import ScrapingRoutes
from lily.ingest.scraping.jobs import WaysIn
from lily.ingest.scraping.orders import Orders
from lily.log.producer import LogProducer
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.connectors import PostgresConnectors
from lily.repositories.postgres.policies import PostgresPolicies
from lily.repositories.postgres.pool import Database, TenantDatabase
from lily.repositories.postgres.scraping import ScrapingJobs
from lily.repositories.postgres.tenants import Tenants
from lily.settings import Settings
from lily.tenancy.open_cells import OpenCells
from lily.tenancy.quotas import Quotas
from lily.tenancy.routes import TenantRoutes


def scraping_routers(connectors: PostgresConnectors, log: LogProducer, database: Database) -> list[APIRouter]:
    jobs = ScrapingJobs(database)
    return [ScrapingRoutes(connectors, Orders(log, jobs), jobs).router()]


@asynccontextmanager
async def open_ways_in(settings: Settings, database: Database) -> AsyncIterator[WaysIn]:
    """The parts a write passes, as in the gateway; open only while a job runs, for they beat and listen."""
    log, tenants = LogProducer(settings.kafka), Tenants(database)
    routes = TenantRoutes(tenants, Quotas(Limits(**settings.quota.model_dump())), database.url)
    cells = OpenCells(settings, routes, tenants, database)
    announcements = Announcements(database)
    trail = AuditTrail(database.url, settings.audit.key.get_secret_value(), settings.data_dir / "audit")
    async with AsyncExitStack() as stack:
        stack.enter_context(trail.running())
        log.start()
        stack.push_async_callback(asyncio.to_thread, log.close)
        await stack.enter_async_context(routes.running())
        await stack.enter_async_context(cells.running())
        await stack.enter_async_context(announcements.running())
        guard = guard_assets(database, TenantDatabase(database, cells.database_of))
        access = Access(LiveBooks(announcements, PostgresPolicies(database)))
        yield WaysIn(Recorder(log, cells), guard, access, trail)
