"""`Lily-After`: a read that is answered when the named event is visible."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Request

from lily.access.calls import Reading
from lily.access.requests import read_event_id
from lily.repositories.postgres.visibility import Visibility

HEADER = "lily-after"


class AfterEvent:
    def __init__(self, visibility: Visibility, wait_seconds: float) -> None:
        self._visibility = visibility
        self._wait_seconds = wait_seconds

    async def visible(
        self,
        request: Request,
        call: Reading,
        lily_after: Annotated[
            str | None, Header(description="Answer when the event with this id is visible.")
        ] = None,
    ) -> None:
        """Return at once without the header, else when the event is visible; raise after the time limit."""
        event_id = read_event_id(request, HEADER) if lily_after is not None else None
        if event_id is None or await self._visibility.settled(call.tenant_id, event_id):
            return
        await self._visibility.wait(call.tenant_id, event_id, call.preference.seconds(self._wait_seconds))
