"""The routes that read incidents: one with its timeline, and lists in pages."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import BaseModel
from pydantic_core import to_json

from lily.access.calls import Reading
from lily.access.requests import check_id
from lily.access.routers import Route, add_routes
from lily.domain.incidents import SEVERITIES
from lily.repositories.postgres.incidents import IncidentFilters, IncidentPlace, StoredIncident, StoredStep
from lily.serving.incidents import Concern, Incidents
from lily.serving.rest.after import AfterEvent
from lily.serving.rest.pages import PageTokens, page_size

INCIDENTS = "/lily/v1/incidents"

Text = Annotated[str | None, Query(max_length=1024)]
OfStatus = Annotated[
    Literal["open", "acknowledged", "resolved", "unresolved"] | None,
    Query(description="`unresolved` is open or acknowledged."),
]
OfSeverity = Annotated[str | None, Query(description=f"One of {', '.join(SEVERITIES)}.", max_length=16)]
OnAsset = Annotated[str | None, Query(description="Only those of this asset.", max_length=512)]
Attached = Annotated[bool | None, Query(description="Whether their asset is known.")]
PageSize = Annotated[int, Query(description="0 means 50; at most 1,000 are answered.")]
PageToken = Annotated[str, Query(description="`next_page_token` of the page before.")]


class IncidentDocument(BaseModel):
    """An incident as every interface shows it; `names` are what its source calls the asset."""

    incident_id: str
    asset_id: str | None
    title: str | None
    severity: str | None
    status: str
    owner: str | None
    feedback: str | None
    url: str | None
    ticket: str | None
    rule: dict[str, Any] | None
    measurements: list[Any]
    names: list[str]
    source: str | None
    connector_id: str | None
    external_id: str | None
    opened_at: datetime
    updated_at: datetime


class TimelineEntry(BaseModel):
    event_id: str
    event_time: datetime
    applied_at: datetime
    step: str
    actor: str
    said: dict[str, Any]
    comment: str | None


class IncidentWithTimeline(IncidentDocument):
    timeline: list[TimelineEntry]


class IncidentList(BaseModel):
    incidents: list[IncidentDocument]
    next_page_token: str


class IncidentReads:
    def __init__(self, incidents: Incidents, after: AfterEvent, tokens: PageTokens) -> None:
        self._incidents = incidents
        self._after = after
        self._tokens = tokens

    def router(self) -> APIRouter:
        return add_routes(
            APIRouter(prefix=INCIDENTS, tags=["incidents"], dependencies=[Depends(self._after.visible)]),
            Route("", "GET", self.list, "listIncidents", IncidentList),
            Route("/{incident_id}", "GET", self.get, "getIncident", IncidentWithTimeline),
        )

    async def list(
        self,
        call: Reading,
        status: OfStatus = None,
        severity: OfSeverity = None,
        owner: Text = None,
        source: Text = None,
        asset_id: OnAsset = None,
        attached: Attached = None,
        page_size: PageSize = 0,
        page_token: PageToken = "",
    ) -> Response:
        """The incidents the caller may see, newest first."""
        filters = IncidentFilters(
            status=status if status != "unresolved" else None,
            unresolved=status == "unresolved",
            severity=_checked(severity),
            owner=_checked(owner),
            source=_checked(source),
            asset_ids=None if asset_id is None else [check_id(asset_id)],
            is_attached=attached,
        )
        question = ("incidents", call.tenant_id, repr(filters))
        page, place = await self._incidents.page(
            call, filters, self._place(page_token, question), _size(page_size)
        )
        token = (
            self._tokens.issue((place.opened_at.isoformat(), place.incident_id), question) if place else ""
        )
        shown = ",".join(incident.document for incident in page)
        content = f'{{"incidents":[{shown}],"next_page_token":{to_json(token).decode()}}}'
        return Response(content, media_type="application/json")

    async def get(self, call: Reading, incident_id: str) -> Response:
        """An incident and everything that was said about it, oldest first."""
        incident = await self._incidents.find(call, check_id(incident_id))
        timeline = await self._incidents.stored.timeline(call.tenant_id, incident_id)
        steps = to_json([_entry(step) for step in timeline]).decode()
        return Response(f'{incident.document[:-1]},"timeline":{steps}}}', media_type="application/json")

    def _place(self, token: str, question: tuple[str, ...]) -> IncidentPlace | None:
        if not token:
            return None
        opened_at, incident_id = self._tokens.read(token, question)
        return IncidentPlace(datetime.fromisoformat(opened_at), incident_id)


def concern_fields(concern: Concern) -> str:
    """What an asset's answer says about incidents, as members of its JSON object."""
    return f'"incidents":[{_joined(concern.own)}],"affected_upstream":[{_joined(concern.upstream)}]'


def _joined(incidents: Any) -> str:
    documents: list[StoredIncident] = list(incidents)
    return ",".join(incident.document for incident in documents)


def _entry(step: StoredStep) -> dict[str, Any]:
    return {
        "event_id": step.event_id,
        "event_time": step.event_time,
        "applied_at": step.applied_at,
        "step": step.step,
        "actor": step.actor,
        "said": step.said,
        "comment": step.comment,
    }


def _size(requested: int) -> int:
    return page_size(requested)


def _checked(text: str | None) -> str | None:
    return None if text is None else check_id(text)
