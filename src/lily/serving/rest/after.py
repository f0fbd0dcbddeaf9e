"""`Lily-After`: a read that is answered when the named event is visible."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Request

from lily.access.calls import Reading
from lily.access.requests import read_event_id
from lily.tenancy.open_cells import OpenCells

HEADER = "lily-after"


class AfterEvent:
    def __init__(self, cells: OpenCells, wait_seconds: float) -> None:
        self._cells = cells
        self._wait_seconds = wait_seconds

    async def visible(
        self,
        request: Request,
        call: Reading,
        lily_after: Annotated[
            str | None, Header(description="Answer when the event with this id is visible.")
        ] = None,
    ) -> None:
        """Return at once without the header, else when the event and all that follows from it is visible;
        raise after the time limit."""
        event_id = read_event_id(request, HEADER) if lily_after is not None else None
        if event_id is None:
            return
        visibility = (await self._cells.of(call.tenant_id)).visibility
        if await visibility.settled(call.tenant_id, event_id, follow=True):
            return
        seconds = call.preference.seconds(self._wait_seconds)
        await visibility.wait(call.tenant_id, event_id, seconds, follow=True)
