"""The routes that take webhooks. They need no token: a delivery is authentic by its signature alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from lily.access.admission import admit
from lily.access.calls import forbidden
from lily.access.decisions import Action, Resource
from lily.access.notebooks import Notebook
from lily.access.origins import origin_of
from lily.access.principals import Principal
from lily.access.requests import JSON_TYPES, read_body
from lily.access.roles import CONNECTOR
from lily.access.routers import Route, add_routes
from lily.domain.conditions import Circumstances
from lily.domain.connectors import Connector
from lily.domain.errors import Forbidden
from lily.domain.event_ids import batch_id_from_key
from lily.domain.incidents import Step, incident_id
from lily.ingest.assertions import Arrival
from lily.ingest.incidents import draft_step
from lily.ingest.recorder import Recorder, Submission, Waiting
from lily.ingest.rest.bodies import answers
from lily.ingest.webhooks.receivers import Receivers
from lily.ingest.webhooks.sources import Config, Delivery, WebhookSource

SEEDED = "/webhook/monte-carlo"
CONNECTORS = "/lily/v1/webhooks/{source}/{connector_id}"
MAX_BODY_BYTES = 512 * 1024
_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}


@dataclass(frozen=True)
class _Report:
    """What an authentic delivery says; one with the same `signed` content says the same."""

    steps: Sequence[Step]
    connector: Connector
    arrival: Arrival
    signed: bytes


@dataclass(frozen=True)
class WebhookRoutes:
    recorder: Recorder
    receivers: Receivers
    sources: Mapping[str, WebhookSource]

    def router(self) -> APIRouter:
        given = answers(s200="WebhookAnswer")
        return add_routes(
            APIRouter(tags=["incidents"]),
            Route(SEEDED, "POST", self.monte_carlo, "postMonteCarloWebhook", given, _BODY),
            Route(CONNECTORS, "POST", self.connector, "postWebhook", given, _BODY),
        )

    async def monte_carlo(self, request: Request) -> Response:
        """Monte Carlo's webhook; whose it is, its signature tells."""
        return await self._take(request, "monte-carlo", None)

    async def connector(self, request: Request, source: str, connector_id: str) -> Response:
        """A webhook of the source with this type, for one connector; 403 unless it is signed as that one."""
        return await self._take(request, source, connector_id)

    async def _take(self, request: Request, type_name: str, connector_id: str | None) -> Response:
        request.state.claimed = f"webhook {type_name} {connector_id or ''}".strip()[:256]
        source = self.sources.get(type_name)
        if source is None:
            raise Forbidden("the signature is missing or is not that of a connector here; check its secret")
        delivery = await _delivery(request)
        connector = await self.receivers.authentic(source, delivery, connector_id)
        principal = Principal(connector.tenant_id, f"connector/{connector.name}", frozenset({CONNECTOR}))
        request.state.principal = principal  # for the audit
        await admit(request, principal, writing=True)
        steps = source.parse(delivery.payload, connector.config)
        await _require(request, principal, steps, connector.config)
        arrival = Arrival(
            connector.tenant_id, principal.subject, request.url.path, request.state.traceparent, delivery.at
        )
        return await self._record(_Report(steps, connector, arrival, source.signed(delivery)))

    async def _record(self, report: _Report) -> Response:
        """Answer when the log has it. A delivery that is repeated has the same id and counts once."""
        connector, steps, arrival = report.connector, report.steps, report.arrival
        drafts = [draft_step(step, connector, arrival) for step in steps]
        scope = f"{connector.tenant_id}/webhook/{connector.connector_id}"
        event_id = batch_id_from_key(scope, sha256(report.signed).hexdigest(), len(drafts))
        submission = Submission(arrival, drafts, Waiting(0, must_see=False), None)
        await self.recorder.record_once(submission, event_id)
        reported = dict.fromkeys(incident_id(connector.connector_id, step.external_id) for step in steps)
        content = {"status": "received", "event_id": str(event_id), "incidents": list(reported)}
        return JSONResponse(content, headers={"lily-event-id": str(event_id)})


async def _delivery(request: Request) -> Delivery:
    body = await read_body(request, JSON_TYPES, MAX_BODY_BYTES)
    return Delivery(body, dict(request.headers), datetime.now(UTC), origin_of(request).address)


async def _require(request: Request, principal: Principal, steps: Sequence[Step], config: Config) -> None:
    """`Forbidden` when the connector may not write to an asset that a step names."""
    app, origin, tenant_id = request.app.state, origin_of(request), principal.tenant_id
    known = Circumstances(datetime.now(UTC), origin.address, "")
    source = str(config.get("data_source") or "")
    named = [name for step in steps for name in step.said.get("names") or ()]
    await app.access.refresh(tenant_id)
    for name in dict.fromkeys(named or [""]):
        resource = Resource(tenant_id, id=name, data_source=source)
        decision = app.access.decide(principal, Action.WRITE, resource, known)
        if not decision.allowed:
            Notebook(app.trail, principal, origin).note(Action.WRITE, resource, decision)
            raise forbidden(principal, Action.WRITE, decision)
