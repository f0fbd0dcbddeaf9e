"""Protection in databases, wired: the gateway's routes, and the enforcer that runs beside the dispatcher."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from fastapi import APIRouter

from lily.apps.connectors import open_connectors
from lily.domain.scraping import Mode
from lily.ingest.scraping.orders import Orders
from lily.log.changes import ChangeFeed
from lily.log.producer import LogProducer
from lily.repositories.keyrings import open_keyring
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.connectors import PostgresConnectors
from lily.repositories.postgres.enforcement import EnforcementLedger, KnownPlaces
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.protected_columns import PostgresProtectedColumns
from lily.repositories.postgres.protection_rules import PostgresProtectionRules
from lily.repositories.postgres.salts import ProtectionSalts
from lily.repositories.postgres.scraping import ScrapingJobs
from lily.repositories.postgres.secrets import PostgresSecrets
from lily.serving.rest.enforcement import EnforcementRoutes
from lily.settings import Settings
from lily.targets.enforcement.enforcer import Enforcer, EnforcerParts
from lily.targets.enforcement.reaching import reach
from lily.targets.enforcement.rehearsals import Rehearsals
from lily.targets.enforcement.wanted import Wishes

#: Who orders that a database is scraped because its tables have changed.
ENFORCER = "enforcer"


@dataclass(frozen=True)
class EnforcementParts:
    """`database` is the shared cell's, `homes` leads to that of each tenant's cell."""

    settings: Settings
    database: Database
    homes: Database

    @property
    def connectors(self) -> PostgresConnectors:
        return open_connectors(self.settings.secrets, self.database)

    @property
    def salts(self) -> ProtectionSalts:
        return ProtectionSalts(PostgresSecrets(self.database, open_keyring(self.settings.secrets)))

    @property
    def wishes(self) -> Wishes:
        return Wishes(
            PostgresProtectionRules(self.database),
            PostgresProtectedColumns(self.homes),
            KnownPlaces(self.homes),
        )

    @property
    def ledger(self) -> EnforcementLedger:
        return EnforcementLedger(self.database)

    def rehearsals(self) -> Rehearsals:
        return Rehearsals(self.connectors, self.salts, self.wishes, reach)

    def routers(self) -> list[APIRouter]:
        wait_seconds = self.settings.gateway.wait_seconds
        return [EnforcementRoutes(self.ledger, self.rehearsals().plan, wait_seconds).router()]

    async def order_scrape(self, tenant_id: str, connector_id: str) -> str:
        """The id of the job that reads a database whose tables have changed."""
        log = LogProducer(self.settings.kafka)  # for the moment: a producer at rest is not quite at rest
        log.start()
        try:
            orders = Orders(log, ScrapingJobs(self.database))
            return await orders.order(tenant_id, connector_id, Mode.INCREMENTAL, ENFORCER)
        finally:
            await asyncio.to_thread(log.close)

    def enforcer(self, announcements: Announcements) -> Enforcer:
        parts = EnforcerParts(
            connectors=self.connectors,
            salts=self.salts,
            wishes=self.wishes,
            ledger=self.ledger,
            announcements=announcements,
            open_feed=partial(ChangeFeed.alone, self.settings.kafka),
            reach=reach,
            order_scrape=self.order_scrape,
        )
        return Enforcer(parts, self.settings.database.url.get_secret_value())
