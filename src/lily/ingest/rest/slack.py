"""The route Slack calls when somebody presses a button: it needs no token, Slack's signature says it all.

The act is that of the person who pressed, by the rights Lily knows them to have. Whom nobody can name acts as
the connector, whose administrator has put the buttons there.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Protocol

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from lily.access.admission import admit
from lily.access.calls import Call
from lily.access.notebooks import Notebook
from lily.access.origins import origin_of
from lily.access.principals import Principal
from lily.access.requests import Preference, read_body
from lily.domain.conditions import Circumstances
from lily.domain.errors import Forbidden, NotFound
from lily.domain.event_ids import batch_id_from_key
from lily.domain.incidents import StepKind
from lily.ingest.assertions import Arrival
from lily.ingest.incidents import draft_act
from lily.ingest.recorder import Recorder, Submission, Waiting
from lily.ingest.webhooks.receivers import Receiver, Receivers
from lily.ingest.webhooks.slack import Press, is_slacks, read_press
from lily.repositories.postgres.identities import Identities

SLACK = "/lily/v1/webhooks/slack/{connector_id}"
FORM = "application/x-www-form-urlencoded"
_BODY = {"requestBody": {"required": True, "content": {FORM: {"schema": {"type": "object"}}}}}
_STRANGER = Forbidden("the signature is missing, old, or not that of a connector here; check signing_secret")


class Incidents(Protocol):
    """Finds an incident, whoever asks (`PostgresIncidents`)."""

    async def find(self, tenant_id: str, incident_id: str) -> Any: ...


@dataclass(frozen=True)
class SlackParts:
    """`require` raises what forbids a caller to act on an incident; `email_of` asks Slack for a person's
    address, '' when it does not tell."""

    recorder: Recorder
    receivers: Receivers
    identities: Identities
    incidents: Incidents
    require: Callable[[Call, str], Awaitable[object]]
    email_of: Callable[[Receiver, str], Awaitable[str]]


@dataclass(frozen=True)
class _Actor:
    """Who acts: `principal` is decided about when `is_known`; otherwise the connector vouches."""

    principal: Principal
    is_known: bool
    comment: str


class SlackRoutes:
    def __init__(self, parts: SlackParts) -> None:
        self._parts = parts

    def router(self) -> APIRouter:
        """Before the routes of other webhooks, whose path would take it."""
        router = APIRouter(tags=["incidents"])
        router.add_api_route(
            SLACK, self.press, methods=["POST"], operation_id="postSlackInteraction", openapi_extra=_BODY
        )
        return router

    async def press(self, request: Request, connector_id: str) -> Response:
        """Acknowledge the incident of a pressed button; 403 unless Slack has signed it lately."""
        request.state.claimed = f"webhook slack {connector_id}"[:256]
        body = await read_body(request, (FORM,))
        receiver = await self._authentic(request, connector_id, body)
        press = read_press(body)
        if not press.incident_id:
            return Response(status_code=200)  # a button that only opens a page
        actor = await self._actor(receiver, press)
        request.state.principal = actor.principal  # for the audit
        await admit(request, actor.principal, writing=True)
        try:
            await self._check(request, actor, press)
        except (Forbidden, NotFound) as error:
            return _tell(error.message)
        await self._acknowledge(request, actor, press, body)
        return Response(status_code=200)

    async def _authentic(self, request: Request, connector_id: str, body: bytes) -> Receiver:
        found = await self._parts.receivers.find("slack", connector_id)
        secret = found.secrets.get("signing_secret", "") if found else ""
        if found is None or not secret or not is_slacks(body, request.headers, secret, time.time()):
            raise _STRANGER
        return found

    async def _actor(self, receiver: Receiver, press: Press) -> _Actor:
        connector = receiver.connector
        people = connector.config.get("people") or {}
        named = people.get(press.user_id) or await self._parts.email_of(receiver, press.user_id)
        if named:
            person = await self._parts.identities.person(connector.tenant_id, str(named))
            if person.active is not None or press.user_id in people:
                principal = Principal(connector.tenant_id, str(named), person.roles, person.groups)
                # Of one who is no longer active nothing is accepted, whatever their roles were.
                gone = replace(principal, roles=frozenset(), groups=frozenset())
                return _Actor(gone if person.active is False else principal, person.active is not None, "")
        subject = f"connector/{connector.name}"
        comment = f"acknowledged in Slack by {press.user_name} ({press.user_id})"
        return _Actor(Principal(connector.tenant_id, subject, frozenset()), False, comment)

    async def _check(self, request: Request, actor: _Actor, press: Press) -> None:
        tenant_id = actor.principal.tenant_id
        app, origin = request.app.state, origin_of(request)
        notebook = Notebook(app.trail, actor.principal, origin)
        if not actor.is_known:
            if await self._parts.incidents.find(tenant_id, press.incident_id) is None:
                raise NotFound(f"there is no incident {press.incident_id!r} any more")
            notebook.write("write", ("incident", press.incident_id), True, "a button in Slack")
            return
        circumstances = Circumstances(datetime.now(UTC), origin.address, "")
        call = Call(
            actor.principal,
            Preference(respond_async=True, wait_seconds=None),
            request.state.traceparent,
            app.access,
            circumstances,
            notebook,
        )
        await self._parts.require(call, press.incident_id)

    async def _acknowledge(self, request: Request, actor: _Actor, press: Press, body: bytes) -> None:
        """On the log when this returns; the same request again is the same event."""
        principal = actor.principal
        arrival = Arrival(
            principal.tenant_id,
            principal.subject,
            request.url.path,
            request.state.traceparent,
            datetime.now(UTC),
        )
        said = {"comment": actor.comment} if actor.comment else {}
        draft = draft_act(press.incident_id, StepKind.ACKNOWLEDGED, said, arrival)
        event_id = batch_id_from_key(f"{principal.tenant_id}/slack", sha256(body).hexdigest())
        submission = Submission(arrival, [draft], Waiting(0, must_see=False), None)
        await self._parts.recorder.record_once(submission, event_id)


def _tell(text: str) -> Response:
    """Slack shows it to the one who pressed, and to nobody else."""
    return JSONResponse({"response_type": "ephemeral", "replace_original": False, "text": text})
