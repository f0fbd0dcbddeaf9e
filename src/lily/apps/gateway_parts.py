"""What a process of the gateway is made of, wired together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import APIRouter, FastAPI

from lily.access.audit import AuditTrail
from lily.access.origins import read_networks
from lily.apps.access import AccessParts
from lily.apps.connectors import connector_routers, open_connectors
from lily.apps.deliveries import delivery_routers
from lily.apps.enforcement import EnforcementParts
from lily.apps.guards import guard_assets
from lily.apps.identity import IdentityParts
from lily.apps.incidents import incident_routers, open_incidents, webhook_routers
from lily.apps.lineage import LineageParts
from lily.apps.live import live_router
from lily.apps.notifications import notification_routers
from lily.apps.protection import ProtectionParts
from lily.apps.scraping import scraping_routers
from lily.apps.slack import slack_router
from lily.domain.tenants import Limits
from lily.ingest.recorder import Recorder
from lily.ingest.rest.assets import AssetWrites
from lily.ingest.rest.entities import EntityWrites
from lily.ingest.rest.writing import Writer
from lily.ingest.webhooks.receivers import Receivers
from lily.log.ends import LogEnds
from lily.log.producer import LogProducer
from lily.repositories.postgres.asset_lists import AssetLists
from lily.repositories.postgres.audit import AuditLog
from lily.repositories.postgres.health import PlatformHealth
from lily.repositories.postgres.pool import Database, TenantDatabase
from lily.repositories.postgres.tenants import Tenants, TenantSources
from lily.serving.grpc.calls import Calls
from lily.serving.grpc.server import GrpcServer
from lily.serving.health import Health
from lily.serving.live.feeds import SharedFeed
from lily.serving.rest.after import AfterEvent
from lily.serving.rest.assets import AssetReads
from lily.serving.rest.audit import AuditReads
from lily.serving.rest.entities import EntityReads
from lily.serving.rest.pages import PageTokens
from lily.serving.rest.problems import describe
from lily.serving.rest.system import SystemRoutes
from lily.serving.rest.tenants import TenantRest
from lily.settings import Settings
from lily.tenancy.open_cells import OpenCells
from lily.tenancy.quotas import Quotas
from lily.tenancy.routes import TenantRoutes


class GatewayParts:
    """What the gateway works with, wired to what the settings name; `running` opens it.

    What is about assets lives in the cell of its tenant; all else is in the shared cell's database.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.tokens = PageTokens(settings.auth.secret.get_secret_value())
        self._hold(settings)
        self._know(settings)
        self._tell(settings)

    def _hold(self, settings: Settings) -> None:
        """Databases, the log and the tenants."""
        self.database, self.log = Database(settings.database), LogProducer(settings.kafka)
        self.tenants, self.quotas = Tenants(self.database), Quotas(Limits(**settings.quota.model_dump()))
        self.routes = TenantRoutes(self.tenants, self.quotas, self.database.url)
        self.cells = OpenCells(settings, self.routes, self.tenants, self.database)
        self.homes = TenantDatabase(self.database, self.cells.database_of)
        key = settings.audit.key.get_secret_value()
        self.trail = AuditTrail(self.database.url, key, settings.data_dir / "audit")

    def _know(self, settings: Settings) -> None:
        """Who is asking, what they may do, and how they read and write."""
        wait_seconds = settings.gateway.wait_seconds
        self.guard = guard_assets(self.database, self.homes)
        self.writer = Writer(Recorder(self.log, self.cells), self.guard, wait_seconds)
        self.writes = AssetWrites(self.writer, describe)
        self.after = AfterEvent(self.cells, wait_seconds)
        self.identity = IdentityParts(settings.auth, self.database)
        self.announcements = self.identity.announcements
        self.access = AccessParts(self.database, self.announcements, self.guard, AssetLists(self.homes))
        self.lineage = LineageParts(self.database, self.homes, self.writer, settings.gateway.lineage_nodes)

    def _tell(self, settings: Settings) -> None:
        """What comes in from others and goes out to them."""
        self.connectors = open_connectors(settings.secrets, self.database)
        self.feed = SharedFeed(settings.kafka)
        self.protection = ProtectionParts(
            self.database, self.homes, settings.secrets, self.announcements, self.feed
        )
        self.incidents = open_incidents(self.homes, self.guard, settings.gateway.lineage_nodes)
        self.receivers = Receivers(self.connectors, self.announcements)
        proxies = read_networks(settings.audit.proxies, "LILY_AUDIT_PROXIES")
        calls = Calls(self.identity.authenticator, self.access.point, self.trail, self.routes, proxies)
        self.grpc = GrpcServer(settings.gateway, self.access.services(calls) | self.lineage.services(calls))

    def routers(self) -> list[APIRouter]:
        """In the order they are matched: the paths of assets take everything that is left."""
        return [*self._for_machines(), *self._before_assets(), *self._of_assets(), *self._of_others()]

    def _for_machines(self) -> list[APIRouter]:
        """What is asked most often comes first: a path is compared with one route after the other."""
        targets, database = self.settings.targets, self.database
        return [
            self.writes.router_of_posts(),
            *self.protection.routers(self.guard, self.after, self.access.point),
            slack_router(targets, database, self.writer, self.receivers, self.incidents),
            *webhook_routers(self.writer, self.receivers),
        ]

    def _before_assets(self) -> list[APIRouter]:
        settings, after, tokens = self.settings, self.after, self.tokens
        health = Health(PlatformHealth(self.database), LogEnds(settings.kafka))
        return [
            SystemRoutes(health).router(),
            AuditReads(AuditLog(self.database, self.homes), tokens).router(),
            *self.access.routers(after, tokens),
            *self.lineage.routers(self.incidents, after, tokens),
            *notification_routers(self.database, self.writer, self.connectors, self.announcements, tokens),
            live_router(settings, self.feed, self.guard, self.announcements, self.cells),
            *EnforcementParts(settings, self.database, self.homes).routers(),
        ]

    def _of_assets(self) -> list[APIRouter]:
        return [
            self.writes.router(),
            AssetReads(self.guard, self.incidents, self.after, self.tokens).router(),
            EntityWrites(self.writer).router(),
            EntityReads(self.guard, self.after).router(),
        ]

    def _of_others(self) -> list[APIRouter]:
        database, writer, tokens = self.database, self.writer, self.tokens
        return [
            *self.identity.routers(),
            *connector_routers(self.connectors, self.announcements),
            *scraping_routers(self.connectors, self.log, database),
            *incident_routers(self.incidents, writer, self.after, tokens),
            *delivery_routers(database, self.guard, tokens),
            TenantRest(self.tenants, TenantSources(self.homes), self.quotas).router(),
        ]

    @asynccontextmanager
    async def running(self, _app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await self.database.open()
            stack.push_async_callback(self.database.close)
            stack.enter_context(self.trail.running())
            self.log.start()
            stack.callback(self.log.close)
            for part in (self.routes, self.cells, self.identity, self.feed, self.protection, self.grpc):
                await stack.enter_async_context(part.running())
            yield
