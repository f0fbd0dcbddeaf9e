"""Protection in databases, wired: the gateway's routes, and the enforcer that runs beside the dispatcher."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from fastapi import APIRouter

from lily.apps.connectors import open_connectors
from lily.log.changes import ChangeFeed
from lily.repositories.keyrings import open_keyring
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.connectors import PostgresConnectors
from lily.repositories.postgres.enforcement import EnforcementLedger, KnownColumns
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.protected_columns import PostgresProtectedColumns
from lily.repositories.postgres.protection_rules import PostgresProtectionRules
from lily.repositories.postgres.salts import ProtectionSalts
from lily.repositories.postgres.secrets import PostgresSecrets
from lily.serving.rest.enforcement import EnforcementRoutes
from lily.settings import Settings
from lily.targets.enforcement.enforcer import Enforcer, EnforcerParts
from lily.targets.enforcement.reaching import reach
from lily.targets.enforcement.rehearsals import Rehearsals
from lily.targets.enforcement.wanted import Wishes


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
            KnownColumns(self.homes),
        )

    @property
    def ledger(self) -> EnforcementLedger:
        return EnforcementLedger(self.database)

    def rehearsals(self) -> Rehearsals:
        return Rehearsals(self.connectors, self.salts, self.wishes, reach)

    def routers(self) -> list[APIRouter]:
        wait_seconds = self.settings.gateway.wait_seconds
        return [EnforcementRoutes(self.ledger, self.rehearsals().plan, wait_seconds).router()]

    def enforcer(self, announcements: Announcements) -> Enforcer:
        parts = EnforcerParts(
            connectors=self.connectors,
            salts=self.salts,
            wishes=self.wishes,
            ledger=self.ledger,
            announcements=announcements,
            open_feed=partial(ChangeFeed.alone, self.settings.kafka),
            reach=reach,
        )
        return Enforcer(parts, self.settings.database.url.get_secret_value())
