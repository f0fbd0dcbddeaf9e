"""The types of connectors this installation knows, and the gateway's routes about connectors, wired."""

from __future__ import annotations

from fastapi import APIRouter

from lily.domain.connectors import SECRET, ConnectorType, ConnectorTypes
from lily.ingest.scraping.sources import check_postgres, plugged_in
from lily.ingest.webhooks.catalogue import webhook_sources
from lily.repositories.keyrings import open_keyring
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.connectors import PostgresConnectors
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.secrets import PostgresSecrets
from lily.serving.rest.connectors import ConnectorRoutes
from lily.settings import SecretsSettings
from lily.targets.frame import target_types

POSTGRES_DESTINATIONS = frozenset({"host", "port", "user", "sslmode", "require_auth"})


def connector_types() -> ConnectorTypes:
    """Every type somebody here can speak to."""
    return ConnectorTypes(
        [
            *(target.connector for target in target_types().values()),
            ConnectorType("postgres", {SECRET: True}, check_postgres, POSTGRES_DESTINATIONS),
            *(ConnectorType(name, {SECRET: False}) for name in sorted(plugged_in())),
            # After those: of a package's source of incidents the source itself says what it needs.
            *(source.type for source in webhook_sources().values()),
        ]
    )


def open_connectors(settings: SecretsSettings, database: Database) -> PostgresConnectors:
    """The registry, on the shared cell's database; needs the key of secrets."""
    return PostgresConnectors(database, PostgresSecrets(database, open_keyring(settings)))


def connector_routers(connectors: PostgresConnectors, announcements: Announcements) -> list[APIRouter]:
    return [ConnectorRoutes(connectors, connector_types(), announcements).router()]
