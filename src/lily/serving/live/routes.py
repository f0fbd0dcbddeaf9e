"""The WebSocket of changes, /ws/notifications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, WebSocket

from lily.serving.live.connections import Connection, LiveParts
from lily.serving.live.listeners import Listener, authenticated_listener

PATH = "/ws/notifications"

Listening = Annotated[Listener | None, Depends(authenticated_listener)]


@dataclass(frozen=True)
class LiveRoutes:
    parts: LiveParts

    def router(self) -> APIRouter:
        router = APIRouter()
        router.add_api_websocket_route(PATH, self.notifications)
        return router

    async def notifications(self, socket: WebSocket, listener: Listening) -> None:
        """Changes as they happen (docs/live.md)."""
        if listener is not None:
            await Connection(socket, listener, self.parts).run()
