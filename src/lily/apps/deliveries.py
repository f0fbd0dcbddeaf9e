"""The gateway's routes about deliveries, wired to their parts."""

from __future__ import annotations

from fastapi import APIRouter

from lily.access.assets import AssetGuard
from lily.repositories.postgres.delivery_log import DeliveryLog
from lily.repositories.postgres.pool import Database
from lily.serving.rest.deliveries import DeliveryRoutes
from lily.serving.rest.pages import PageTokens


def delivery_routers(database: Database, guard: AssetGuard, tokens: PageTokens) -> list[APIRouter]:
    """`database` is the shared cell's, where deliveries are."""
    return [DeliveryRoutes(DeliveryLog(database), guard, tokens).router()]
