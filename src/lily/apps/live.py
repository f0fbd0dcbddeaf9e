"""The gateway's WebSocket of changes, wired to its parts."""

from __future__ import annotations

from fastapi import APIRouter

from lily.access.assets import AssetGuard
from lily.repositories.postgres.announcements import Announcements
from lily.serving.live.catching_up import CatchingUp
from lily.serving.live.connections import LiveParts
from lily.serving.live.cursors import Cursors
from lily.serving.live.feeds import SharedFeed
from lily.serving.live.hubs import Hub
from lily.serving.live.routes import LiveRoutes
from lily.settings import Settings
from lily.tenancy.open_cells import OpenCells


def live_router(
    settings: Settings,
    feed: SharedFeed,
    guard: AssetGuard,
    announcements: Announcements,
    cells: OpenCells,
) -> APIRouter:
    parts = LiveParts(
        hub=Hub(feed, guard, announcements),
        catching_up=CatchingUp(settings.kafka, feed),
        cursors=Cursors(settings.auth.secret.get_secret_value()),
        cells=cells,
    )
    return LiveRoutes(parts).router()
