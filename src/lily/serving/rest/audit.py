"""The routes that read the audit: of a tenant, of an asset, and whole, as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel
from pydantic_core import to_json

from lily.access.calls import Call, call_for
from lily.access.decisions import Action
from lily.access.requests import check_id
from lily.access.routers import Responses, Route, add_routes
from lily.repositories.postgres.audit import AuditFilter, AuditLog, RecordedEntry
from lily.serving.exports import MEDIA_TYPES, ExportFormat, header, lines
from lily.serving.rest.moments import read_moment
from lily.serving.rest.pages import PageTokens, page_size

Auditing = Annotated[Call, Depends(call_for(Action.AUDIT, "audit"))]
PageSize = Annotated[int, Query(description="0 means 50; at most 1,000 are answered.")]
PageToken = Annotated[str, Query(description="`next_page_token` of the page before.")]
Text = Annotated[str | None, Query(max_length=2000)]
Moment = Annotated[str | None, Query(description="RFC 3339.")]
Format = Annotated[ExportFormat, Query(alias="format", description="JSON lines or CSV.")]


class AuditDocument(BaseModel):
    """Who did what, as whom, from where, and why it was allowed or not."""

    seq: int
    at: str
    actor: str
    acting_as: str
    address: str
    action: str
    resource_kind: str
    resource_id: str
    allowed: bool
    reason: str
    trace_id: str
    event_id: str | None
    events: int
    hash: str


class AuditPage(BaseModel):
    entries: list[AuditDocument]
    next_page_token: str


_LINES = {"schema": {"type": "string"}}
_STREAM: Responses = {200: {"content": {media.partition(";")[0]: _LINES for media in MEDIA_TYPES.values()}}}


def filters(
    actor: Text = None,
    action: Text = None,
    allowed: bool | None = None,
    trace_id: Text = None,
    since: Moment = None,
    until: Moment = None,
) -> AuditFilter:
    """What every question to the audit can narrow down."""
    return AuditFilter(
        actor=_checked(actor),
        action=_checked(action),
        allowed=allowed,
        trace_id=_checked(trace_id),
        since=read_moment("since", since) if since else None,
        until=read_moment("until", until) if until else None,
    )


def resource_filters(
    narrowed: Annotated[AuditFilter, Depends(filters)], resource_kind: Text = None, resource_id: Text = None
) -> AuditFilter:
    chosen = {name: getattr(narrowed, name) for name in AuditFilter.__slots__}
    chosen |= {"resource_kind": _checked(resource_kind), "resource_id": _checked(resource_id)}
    return AuditFilter(**chosen)


class AuditReads:
    def __init__(self, log: AuditLog, tokens: PageTokens) -> None:
        self._log = log
        self._tokens = tokens

    def router(self) -> APIRouter:
        """Before the routes of assets, whose ids take any path."""
        log, of_asset = "/lily/v1/audit", "/lily/v1/metadata/audit/{asset_id:path}"
        export, streamed = log + "/export", StreamingResponse
        return add_routes(
            APIRouter(tags=["audit"]),
            Route(log, "GET", self.list, "listAudit", AuditPage),
            Route(of_asset, "GET", self.of_asset, "getMetadataAudit", AuditPage),
            Route(export, "GET", self.export, "exportAudit", _STREAM, response_class=streamed),
        )

    async def list(
        self,
        call: Auditing,
        wanted: Annotated[AuditFilter, Depends(resource_filters)],
        page_size: PageSize = 0,
        page_token: PageToken = "",
    ) -> Response:
        """The tenant's entries, newest first."""
        paging = _Paging(self._tokens, ("audit", call.tenant_id, repr(wanted)), page_size, page_token)
        return paging.answer(await self._log.newest(call.tenant_id, wanted, paging.before, paging.size + 1))

    async def of_asset(
        self,
        call: Auditing,
        asset_id: str,
        wanted: Annotated[AuditFilter, Depends(filters)],
        page_size: PageSize = 0,
        page_token: PageToken = "",
    ) -> Response:
        """What was done to an asset and with it, newest first; also of one that is gone."""
        check_id(asset_id)
        question = ("audit of asset", call.tenant_id, asset_id, repr(wanted))
        paging = _Paging(self._tokens, question, page_size, page_token)
        found = await self._log.of_asset(call.tenant_id, asset_id, wanted, paging.before, paging.size + 1)
        return paging.answer(found)

    async def export(
        self,
        call: Auditing,
        wanted: Annotated[AuditFilter, Depends(resource_filters)],
        fmt: Format = ExportFormat.JSONL,
    ) -> Response:
        """All entries, oldest first, as a stream."""
        headers = {"content-disposition": f'attachment; filename="audit.{fmt.value}"'}
        return StreamingResponse(
            self._lines(call.tenant_id, wanted, fmt), media_type=MEDIA_TYPES[fmt], headers=headers
        )

    async def _lines(self, tenant_id: str, wanted: AuditFilter, fmt: ExportFormat) -> AsyncIterator[str]:
        yield header(fmt, RecordedEntry._fields)
        async for page in self._log.all(tenant_id, wanted):
            yield lines(fmt, RecordedEntry._fields, (entry.document() for entry in page))


class _Paging:
    """One page of a question (AIP-158)."""

    def __init__(self, tokens: PageTokens, question: tuple[str, ...], size: int, token: str) -> None:
        self._tokens = tokens
        self._question = question
        self.size = page_size(size)
        self.before = tokens.read(token, question)[0] if token else None

    def answer(self, found: list[RecordedEntry]) -> Response:
        page, more = found[: self.size], len(found) > self.size
        content = {
            "entries": [entry.document() for entry in page],
            "next_page_token": self._tokens.issue((page[-1].seq,), self._question) if more else "",
        }
        return Response(to_json(content), media_type="application/json")


def _checked(text: str | None) -> str | None:
    return check_id(text) if text is not None else None
