"""The gateway's routes about subscriptions and notifications, wired to their parts."""

from __future__ import annotations

from fastapi import APIRouter

from lily.ingest.rest.notifications import NotificationWrites
from lily.ingest.rest.writing import Writer
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.connectors import PostgresConnectors
from lily.repositories.postgres.identities import Identities
from lily.repositories.postgres.notifications import PostgresNotifications
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.subscriptions import PostgresSubscriptions
from lily.serving.notifications import Notifications
from lily.serving.rest.notifications import NotificationRoutes
from lily.serving.rest.pages import PageTokens
from lily.serving.rest.subscriptions import SubscriptionRoutes
from lily.targets.endpoints import connector_of
from lily.targets.frame import target_types


def notification_routers(
    database: Database,
    writer: Writer,
    connectors: PostgresConnectors,
    announcements: Announcements,
    tokens: PageTokens,
) -> list[APIRouter]:
    """To be put before the routes about assets, whose paths would take everything."""
    subscriptions, identities = PostgresSubscriptions(database), Identities(database)
    routes = SubscriptionRoutes(
        subscriptions,
        connectors,
        identities,
        announcements,
        tokens,
        frozenset(target_types()),
        connector_of,
    )
    notifications = Notifications(PostgresNotifications(database), writer.guard)
    return [
        NotificationWrites(writer, subscriptions).router(),
        routes.router(),
        NotificationRoutes(notifications, tokens).router(),
    ]
