"""The route Slack calls when somebody presses a button: it needs no token, Slack's signature says it all.

The act is that of the person who pressed, by the rights Lily knows them to have. Whom nobody can name does
nothing, and is told how to become known.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.background import BackgroundTask

from lily.access.admission import admit
from lily.access.calls import Call, forbidden
from lily.access.decisions import Action, Resource
from lily.access.notebooks import Notebook
from lily.access.origins import origin_of
from lily.access.principals import Principal
from lily.access.requests import Preference, read_body
from lily.access.routers import Route, add_routes
from lily.domain.conditions import Circumstances
from lily.domain.errors import Forbidden, NotFound
from lily.domain.event_ids import batch_id_from_key
from lily.domain.incidents import StepKind
from lily.domain.notifications import notification_of
from lily.ingest.assertions import Arrival
from lily.ingest.incidents import draft_act
from lily.ingest.recorder import Recorder, Submission, Waiting
from lily.ingest.webhooks.receivers import Receiver, Receivers
from lily.ingest.webhooks.slack import ACKNOWLEDGE, Press, is_slacks, read_press
from lily.repositories.postgres.identities import Identities
from lily.repositories.postgres.notifications import PostgresNotifications, Step

SLACK = "/lily/v1/webhooks/slack/{connector_id}"
FORM = "application/x-www-form-urlencoded"
MAX_BODY_BYTES = 512 * 1024
SNOOZED = timedelta(hours=1)
_BODY = {"requestBody": {"required": True, "content": {FORM: {"schema": {"type": "object"}}}}}
_STRANGER = Forbidden("the signature is missing, old, or not that of a connector here; check signing_secret")


@dataclass(frozen=True)
class SlackParts:
    """`require` raises what forbids a caller to act on an incident; `email_of` asks Slack for a person's
    address, '' when it does not tell; `say` posts a text to where Slack shows it to who pressed."""

    recorder: Recorder
    receivers: Receivers
    identities: Identities
    notifications: PostgresNotifications
    require: Callable[[Call, str], Awaitable[object]]
    email_of: Callable[[Receiver, str], Awaitable[str]]
    say: Callable[[str, str], Awaitable[None]]


class SlackRoutes:
    def __init__(self, parts: SlackParts) -> None:
        self._parts = parts

    def router(self) -> APIRouter:
        """Before the routes of other webhooks, whose path would take it."""
        press = Route(SLACK, "POST", self.press, "postSlackInteraction", takes=_BODY, response_class=Response)
        return add_routes(APIRouter(tags=["incidents"]), press)

    async def press(self, request: Request, connector_id: str) -> Response:
        """Do what a pressed button says; 403 unless Slack has signed it lately."""
        request.state.claimed = f"webhook slack {connector_id}"[:256]
        body = await read_body(request, (FORM,), MAX_BODY_BYTES)
        receiver = await self._authentic(request, connector_id, body)
        press = read_press(body)
        if not press.action:
            return Response(status_code=200)  # a button that only opens a page
        principal, refusal = await self._person(receiver, press)
        request.state.principal = principal  # for the audit
        await admit(request, principal, writing=True)
        call = _call(request, principal)
        if refusal:
            call.notebook.write("write", _about(press), False, f"a button in Slack: {refusal}"[:512])
            return self._tell(press, refusal)
        try:
            return await self._act(request, call, press, body)
        except (Forbidden, NotFound) as error:
            return self._tell(press, error.message)

    async def _authentic(self, request: Request, connector_id: str, body: bytes) -> Receiver:
        found = await self._parts.receivers.find("slack", connector_id)
        secret = found.secrets.get("signing_secret", "") if found else ""
        if found is None or not secret or not is_slacks(body, request.headers, secret, time.time()):
            raise _STRANGER
        return found

    async def _person(self, receiver: Receiver, press: Press) -> tuple[Principal, str]:
        """Who pressed, with the roles Lily knows of, and why nothing is accepted from them, if that is so."""
        connector = receiver.connector
        people = connector.config.get("people") or {}
        named = str(people.get(press.user_id) or await self._parts.email_of(receiver, press.user_id))
        if not named:
            nobody = Principal(connector.tenant_id, f"slack/{press.user_id}", frozenset())
            return nobody, _how_to_be_known(connector.name, press)
        person = await self._parts.identities.person(connector.tenant_id, named)
        principal = Principal(connector.tenant_id, named, person.roles, person.groups)
        return principal, "your account in Lily is deactivated" if person.active is False else ""

    async def _act(self, request: Request, call: Call, press: Press, body: bytes) -> Response:
        if press.action == ACKNOWLEDGE:
            await self._parts.require(call, press.value)
            await self._acknowledge(request, call.principal, press, body)
            return Response(status_code=200)
        return self._tell(press, await self._snooze(call, press))

    async def _acknowledge(self, request: Request, principal: Principal, press: Press, body: bytes) -> None:
        """On the log when this returns; the same request again is the same event."""
        arrival = Arrival(
            principal.tenant_id,
            principal.subject,
            request.url.path,
            request.state.traceparent,
            datetime.now(UTC),
        )
        draft = draft_act(press.value, StepKind.ACKNOWLEDGED, {}, arrival)
        event_id = batch_id_from_key(f"{principal.tenant_id}/slack", sha256(body).hexdigest())
        submission = Submission(arrival, [draft], Waiting(0, must_see=False), None)
        await self._parts.recorder.record_once(submission, event_id)

    async def _snooze(self, call: Call, press: Press) -> str:
        """Snooze the person's own notification of what the message is about."""
        await call.access.refresh(call.tenant_id)
        possible = call.access.may_ever(call.principal, Action.READ)
        if not possible.allowed:
            call.notebook.note(Action.READ, Resource(call.tenant_id), possible)
            raise forbidden(call.principal, Action.READ, possible)
        mine = notification_of(call.tenant_id, call.principal.subject, press.value)
        until = datetime.now(UTC) + SNOOZED
        step = Step(snooze=(until,))
        if await self._parts.notifications.change(call.tenant_id, call.principal.subject, mine, step) is None:
            raise NotFound("you have no notification about this; subscribe to it in Lily to get your own")
        return f"Snoozed until {until:%H:%M} UTC."

    def _tell(self, press: Press, text: str) -> Response:
        """Said after the answer, which Slack wants within three seconds and shows to nobody."""
        background = BackgroundTask(self._parts.say, press.response_url, text) if press.response_url else None
        return Response(status_code=200, background=background)


def _call(request: Request, principal: Principal) -> Call:
    app, origin = request.app.state, origin_of(request)
    return Call(
        principal,
        Preference(respond_async=True, wait_seconds=None),
        request.state.traceparent,
        app.access,
        Circumstances(datetime.now(UTC), origin.address, ""),
        Notebook(app.trail, principal, origin),
    )


def _about(press: Press) -> tuple[str, str]:
    return ("incident" if press.action == ACKNOWLEDGE else "notification", press.value[:512])


def _how_to_be_known(connector: str, press: Press) -> str:
    return (
        f"Lily does not know who you are, so nothing was done. Ask an administrator to add your Slack id "
        f"{press.user_id} to `people` of the connector {connector!r}, or to give its bot the scope "
        f"users:read.email."
    )
