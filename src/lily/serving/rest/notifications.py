"""The routes about a person's notifications, under /lily/v1/notifications."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import AwareDatetime, BaseModel, Field

from lily.access.calls import Call, Reading
from lily.access.routers import Route, add_routes
from lily.access.subscriptions import check_writes
from lily.domain.errors import InvalidInput
from lily.domain.notifications import State
from lily.repositories.postgres.notifications import Notification, Step, Wanted
from lily.serving.notifications import Notifications
from lily.serving.rest.answers import answer
from lily.serving.rest.bodies import Body, body_of, read_model
from lily.serving.rest.pages import PageTokens, page_size

NOTIFICATIONS = "/lily/v1/notifications"
_ONE = "/{notification_id}"
_MOST_DAYS = 366
_STEPS = {"seen": State.SEEN, "acknowledge": State.ACKNOWLEDGED, "resolve": State.RESOLVED}
StateName = Literal["new", "seen", "acknowledged", "resolved"]


class SnoozeBody(Body):
    """Until when it is not listed, or for how long; neither wakes it."""

    until: AwareDatetime | None = None
    minutes: int | None = Field(None, ge=1, le=_MOST_DAYS * 24 * 60)

    def time(self, now: datetime) -> datetime | None:
        if self.until is not None and self.minutes is not None:
            raise InvalidInput("give until or minutes, not both")
        if self.until is not None and self.until > now + timedelta(days=_MOST_DAYS):
            raise InvalidInput(f"/until: at most {_MOST_DAYS} days from now")
        return now + timedelta(minutes=self.minutes) if self.minutes else self.until


class AssignBody(Body):
    assignee: str | None = Field(max_length=256, description="Whose it is besides yours; null: nobody's.")


class NoteBody(Body):
    note: str = Field(max_length=4000)


class NotificationDocument(BaseModel):
    """Everything about one incident, or of one cause: the newest message, and how many there were."""

    notification_id: str
    recipient: str
    group_key: str
    state: StateName
    count: int
    message: dict[str, Any]
    asset_id: str | None
    incident_id: str | None
    snoozed_until: str | None
    assignee: str | None
    note: str
    first_at: str
    last_at: str
    updated_at: str


class NotificationPage(BaseModel):
    notifications: list[NotificationDocument]
    next_page_token: str


class WhyDocument(BaseModel):
    """Which rule, which change, which path."""

    notification_id: str
    because: list[dict[str, Any]]


@dataclass(frozen=True)
class NotificationRoutes:
    notifications: Notifications
    tokens: PageTokens

    def router(self) -> APIRouter:
        one = NotificationDocument
        snoozed, assigned, noted = (body_of(each) for each in (SnoozeBody, AssignBody, NoteBody))
        return add_routes(
            APIRouter(prefix=NOTIFICATIONS, tags=["notifications"]),
            Route("", "GET", self.list, "listNotifications", NotificationPage),
            Route(_ONE, "GET", self.get, "getNotification", one),
            Route(_ONE + "/why", "GET", self.why, "explainNotification", WhyDocument),
            Route(_ONE + "/seen", "POST", self.step, "seeNotification", one),
            Route(_ONE + "/acknowledge", "POST", self.step, "acknowledgeNotification", one),
            Route(_ONE + "/resolve", "POST", self.step, "resolveNotification", one),
            Route(_ONE + "/snooze", "POST", self.snooze, "snoozeNotification", one, snoozed),
            Route(_ONE + "/assign", "POST", self.assign, "assignNotification", one, assigned),
            Route(_ONE + "/note", "POST", self.note, "noteNotification", one, noted),
        )

    async def list(
        self,
        call: Reading,
        state: Annotated[Sequence[StateName] | None, Query(description="Repeat it for several.")] = None,
        severity: Annotated[str | None, Query(max_length=32)] = None,
        incident_id: Annotated[str | None, Query(max_length=512)] = None,
        snoozed: Annotated[bool, Query(description="Those that are snoozed, too.")] = False,
        page_size_: Annotated[int, Query(alias="page_size", description="0 means 50.")] = 0,
        page_token: Annotated[str, Query(description="`next_page_token` of the page before.")] = "",
    ) -> Response:
        """One's own notifications and those assigned to one, newest first."""
        chosen = [*sorted(state or ()), severity or "", incident_id or "", str(snoozed)]
        question = ("notifications", call.tenant_id, call.principal.person, *chosen)
        before = None
        if page_token:
            at, last = self.tokens.read(page_token, question)
            before = datetime.fromisoformat(at), last
        wanted = Wanted(state, severity, incident_id, snoozed, before, page_size(page_size_))
        page, place = await self.notifications.page(call, wanted)
        token = self.tokens.issue([place[0].isoformat(), place[1]], question) if place else ""
        return answer({"notifications": [*map(asdict, page)], "next_page_token": token})

    async def get(self, call: Reading, notification_id: UUID) -> Response:
        return answer(asdict(await self.notifications.find(call, str(notification_id))))

    async def why(self, call: Reading, notification_id: UUID) -> Response:
        """Why the caller got this: which subscription, which change, along which path."""
        causes = await self.notifications.why(call, str(notification_id))
        return answer({"notification_id": str(notification_id), "because": [*map(asdict, causes)]})

    async def step(self, request: Request, call: Reading, notification_id: UUID) -> Response:
        """Say how far one is with it: seen, acknowledged, resolved. Nobody gets on backwards."""
        state = _STEPS[request.url.path.rpartition("/")[2]]
        return await self._change(call, notification_id, Step(state=state))

    async def snooze(self, request: Request, call: Reading, notification_id: UUID) -> Response:
        """Not to be listed until then."""
        body = await read_model(request, SnoozeBody)
        return await self._change(call, notification_id, Step(snooze=(body.time(datetime.now(UTC)),)))

    async def assign(self, request: Request, call: Reading, notification_id: UUID) -> Response:
        """Make it somebody else's too, as far as they may see it."""
        body = await read_model(request, AssignBody)
        return await self._change(call, notification_id, Step(assign=(body.assignee or None,)))

    async def note(self, request: Request, call: Reading, notification_id: UUID) -> Response:
        body = await read_model(request, NoteBody)
        return await self._change(call, notification_id, Step(note=body.note))

    async def _change(self, call: Call, notification_id: UUID, step: Step) -> Response:
        check_writes(call)
        changed: Notification = await self.notifications.change(call, str(notification_id), step)
        return answer(asdict(changed))
