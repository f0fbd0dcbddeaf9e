"""The guard of assets, wired to the databases a process has open."""

from __future__ import annotations

from lily.access.assets import AssetGuard
from lily.access.protections import ProtectionGuard
from lily.repositories.postgres.assets import PostgresAssets
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.protected_assets import PostgresProtectedAssets
from lily.repositories.postgres.protected_columns import PostgresProtectedColumns
from lily.repositories.postgres.protection_rules import PostgresProtectionRules


def guard_assets(shared: Database, homes: Database) -> AssetGuard:
    """Assets are in the database of the tenant's cell, the rules that protect them in the shared cell's."""
    protections = ProtectionGuard(
        PostgresProtectionRules(shared), PostgresProtectedAssets(homes), PostgresProtectedColumns(homes)
    )
    return AssetGuard(PostgresAssets(homes), protections)
