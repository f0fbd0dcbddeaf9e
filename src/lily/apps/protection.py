"""The gateway's routes about protection rules, wired to their parts."""

from __future__ import annotations

from fastapi import APIRouter

from lily.access.assets import AssetGuard
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.protected_columns import PostgresProtectedColumns
from lily.repositories.postgres.protection_rules import PostgresProtectionRules
from lily.serving.rest.after import AfterEvent
from lily.serving.rest.protection import ProtectionRoutes


def protection_routers(
    database: Database,
    homes: Database,
    guard: AssetGuard,
    announcements: Announcements,
    after: AfterEvent,
) -> list[APIRouter]:
    """Rules are in the shared cell's database, columns in the database of the tenant's cell."""
    columns = PostgresProtectedColumns(homes)
    rules = PostgresProtectionRules(database)
    return [ProtectionRoutes(rules, columns, guard, announcements, after).router()]
