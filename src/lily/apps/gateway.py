"""The gateway process: REST on Granian, and gRPC, in and out."""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from granian import Granian
from granian.constants import Interfaces

from lily.access.audit import AuditTrail
from lily.access.origins import read_networks
from lily.apps.access import AccessParts
from lily.apps.connectors import connector_routers, open_connectors
from lily.apps.deliveries import delivery_routers
from lily.apps.enforcement import EnforcementParts
from lily.apps.guards import guard_assets
from lily.apps.identity import IdentityParts
from lily.apps.incidents import incident_routers, open_incidents, webhook_routers
from lily.apps.lineage import Reading, lineage_routers, lineage_services
from lily.apps.listeners import tls_options
from lily.apps.live import live_router
from lily.apps.notifications import notification_routers
from lily.apps.protection import ProtectionParts
from lily.apps.scraping import scraping_routers
from lily.apps.slack import slack_router
from lily.domain.tenants import Limits
from lily.ingest.recorder import Recorder
from lily.ingest.rest.assets import AssetWrites
from lily.ingest.rest.bodies import body_schemas
from lily.ingest.rest.entities import EntityWrites
from lily.ingest.rest.writing import Writer
from lily.ingest.webhooks.receivers import Receivers
from lily.log.ends import LogEnds
from lily.log.producer import LogProducer
from lily.repositories.keyrings import open_keyring
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
from lily.serving.rest.app import AppParts, Surroundings, create_app
from lily.serving.rest.assets import AssetReads
from lily.serving.rest.audit import AuditReads
from lily.serving.rest.browsers import read_origins
from lily.serving.rest.entities import EntityReads
from lily.serving.rest.pages import PageTokens
from lily.serving.rest.problems import describe
from lily.serving.rest.system import SystemRoutes
from lily.serving.rest.tenants import TenantRest
from lily.settings import Settings, load_settings
from lily.telemetry import configure_logging, configure_tracing
from lily.tenancy.open_cells import OpenCells
from lily.tenancy.quotas import Quotas
from lily.tenancy.routes import TenantRoutes

DATA_DIR_VARIABLE = "LILY_DATA_DIR"


def build_app(settings: Settings) -> FastAPI:
    """The gateway's application, wired to the parts the settings name."""
    secret, wait_seconds = settings.auth.secret.get_secret_value(), settings.gateway.wait_seconds
    database, log = Database(settings.database), LogProducer(settings.kafka)
    tenants, quotas = Tenants(database), Quotas(Limits(**settings.quota.model_dump()))
    routes = TenantRoutes(tenants, quotas, database.url)
    cells = OpenCells(settings, routes, tenants, database)
    # What is about assets lives in the cell of its tenant; all else is in the shared cell's database.
    homes = TenantDatabase(database, cells.database_of)
    guard = guard_assets(database, homes)
    writer = Writer(Recorder(log, cells), guard, wait_seconds)
    after = AfterEvent(cells, wait_seconds)
    trail = AuditTrail(database.url, settings.audit.key.get_secret_value(), settings.data_dir / "audit")
    identity = IdentityParts(settings.auth, database)
    access = AccessParts(database, identity.announcements, guard, AssetLists(homes))
    connectors = open_connectors(settings.secrets, database)
    feed = SharedFeed(settings.kafka)
    protection = ProtectionParts(database, homes, settings.secrets, identity.announcements, feed)
    incidents = open_incidents(homes, writer)
    receivers = Receivers(connectors, identity.announcements)
    routers = [
        SystemRoutes(Health(PlatformHealth(database), LogEnds(settings.kafka))).router(),
        AuditReads(AuditLog(database, homes), PageTokens(secret)).router(),
        *access.routers(after, PageTokens(secret)),
        *lineage_routers(
            database,
            homes,
            writer,
            incidents,
            Reading(after, PageTokens(secret), settings.gateway.lineage_nodes),
        ),
        *notification_routers(database, writer, connectors, identity.announcements, PageTokens(secret)),
        *protection.routers(guard, after, access.point),
        live_router(settings, feed, guard, identity.announcements, cells),
        *EnforcementParts(settings, database, homes).routers(),
        AssetWrites(writer, describe).router(),
        AssetReads(guard, incidents, after, PageTokens(secret)).router(),
        EntityWrites(writer).router(),
        EntityReads(guard, after).router(),
        *identity.routers(),
        *connector_routers(connectors, identity.announcements),
        *scraping_routers(connectors, log, database),
        *incident_routers(incidents, writer, after, PageTokens(secret)),
        slack_router(settings.targets, database, writer, receivers, incidents),
        *webhook_routers(writer, receivers),
        *delivery_routers(database, guard, PageTokens(secret)),
        TenantRest(tenants, TenantSources(homes), quotas).router(),
    ]

    calls = Calls(identity.authenticator, access.point, trail, routes)
    services = access.services(calls) | lineage_services(homes, writer, calls)
    grpc_server = GrpcServer(settings.gateway, services)

    @asynccontextmanager
    async def running(_app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await database.open()
            stack.push_async_callback(database.close)
            stack.enter_context(trail.running())
            log.start()
            stack.callback(log.close)
            await stack.enter_async_context(routes.running())
            await stack.enter_async_context(cells.running())
            await stack.enter_async_context(identity.running())
            await stack.enter_async_context(feed.running())
            await stack.enter_async_context(protection.running())
            await stack.enter_async_context(grpc_server.running())
            yield

    proxies = read_networks(settings.audit.proxies, "LILY_AUDIT_PROXIES")
    origins = read_origins(settings.gateway.cors_origins)
    network = Surroundings(proxies, origins, settings.auth.public_url)
    known = identity.authenticator, identity.cookies
    return create_app(
        AppParts(*known, access.point, trail, network, routes, routers, body_schemas(), running)
    )


def worker_app() -> FastAPI:
    """Called by Granian in every worker process."""
    settings = load_settings(Path(os.environ[DATA_DIR_VARIABLE]))
    configure_logging("gateway", settings.telemetry.log_level)
    configure_tracing("gateway", settings.telemetry.otlp_endpoint, settings.telemetry.trace_ratio)
    app = build_app(settings)
    # Batches make thousands of short-lived dictionaries; collecting less often saves a tenth of the time.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    return app


def main() -> None:
    parser = argparse.ArgumentParser(prog="lily-gateway", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    data_dir = parser.parse_args().data_dir.absolute()
    os.environ[DATA_DIR_VARIABLE] = str(data_dir)
    settings = load_settings(data_dir)
    gateway = settings.gateway
    open_keyring(settings.secrets)  # a start without the key of secrets fails here, not at the first secret
    Granian(
        "lily.apps.gateway:worker_app",
        factory=True,
        interface=Interfaces.ASGI,
        address=gateway.host,
        port=gateway.port,
        workers=gateway.workers,
        backlog=1024,
        backpressure=512,
        respawn_failed_workers=True,
        workers_kill_timeout=10,
        log_access=False,
        **tls_options(gateway),
    ).serve()


if __name__ == "__main__":
    main()
