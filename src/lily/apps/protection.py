"""The gateway's parts about protection, wired together: rules, and the answers to engines that ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter

from lily.access.assets import AssetGuard
from lily.access.decision_points import Access
from lily.repositories.keyrings import open_keyring
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.identities import Identities
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.protected_columns import PostgresProtectedColumns
from lily.repositories.postgres.protection_rules import PostgresProtectionRules
from lily.repositories.postgres.salts import ProtectionSalts
from lily.repositories.postgres.secrets import PostgresSecrets
from lily.serving.live.feeds import SharedFeed
from lily.serving.opa.askers import Askers
from lily.serving.opa.live_books import ProtectionBooks
from lily.serving.opa.routes import OpaRoutes
from lily.serving.rest.after import AfterEvent
from lily.serving.rest.protection import ProtectionRoutes
from lily.settings import SecretsSettings


class ProtectionParts:
    """Rules are in the shared cell's database, columns in the database of the tenant's cell."""

    def __init__(
        self,
        database: Database,
        homes: Database,
        secrets: SecretsSettings,
        announcements: Announcements,
        feed: SharedFeed,
    ) -> None:
        self._database = database
        self._announcements = announcements
        self._rules = PostgresProtectionRules(database)
        self._columns = PostgresProtectedColumns(homes)
        salts = ProtectionSalts(PostgresSecrets(database, open_keyring(secrets)))
        self._books = ProtectionBooks(self._rules, self._columns, salts, announcements, feed)

    def routers(self, guard: AssetGuard, after: AfterEvent, access: Access) -> list[APIRouter]:
        askers = Askers(Identities(self._database), access, self._announcements)
        return [
            ProtectionRoutes(self._rules, self._columns, guard, self._announcements, after).router(),
            OpaRoutes(self._books, askers).router(),
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._books.running():
            yield
