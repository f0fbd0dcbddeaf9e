"""The routes by which people act on incidents; each act is a statement on the log like a source's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lily.access.calls import Call, Writing
from lily.access.requests import JSON_TYPES, check_id, read_body
from lily.access.routers import Route, add_routes
from lily.domain.incidents import StepKind
from lily.ingest.incidents import Assignment, Comment, Remark, Resolution, draft_act
from lily.ingest.payloads import Decoder
from lily.ingest.rest.bodies import accepts, answers
from lily.ingest.rest.lineage import answer
from lily.ingest.rest.writing import Writer, accepted_headers, raise_refusal

INCIDENTS = "/lily/v1/incidents"
_REMARK: Decoder[Remark] = Decoder(Remark)
_ASSIGNMENT: Decoder[Assignment] = Decoder(Assignment)
_RESOLUTION: Decoder[Resolution] = Decoder(Resolution)
_COMMENT: Decoder[Comment] = Decoder(Comment)
#: What can be done, by the last part of its path.
_ACTS: dict[str, tuple[StepKind, Decoder[Any], str]] = {
    "acknowledge": (StepKind.ACKNOWLEDGED, _REMARK, "Remark"),
    "assign": (StepKind.ASSIGNED, _ASSIGNMENT, "Assignment"),
    "resolve": (StepKind.RESOLVED, _RESOLUTION, "Resolution"),
    "reopen": (StepKind.REOPENED, _REMARK, "Remark"),
    "comment": (StepKind.COMMENTED, _COMMENT, "Comment"),
}


class Incident(Protocol):
    """An incident as it is read back."""

    @property
    def document(self) -> str:
        """It, as JSON."""


#: Finds the incident for an act, or raises what forbids it.
Require = Callable[[Call, str], Awaitable[Incident]]


class IncidentWrites:
    def __init__(self, writer: Writer, require: Require) -> None:
        self._writer = writer
        self._require = require

    def router(self) -> APIRouter:
        given = answers(s200="IncidentAnswer", s202="LineageAnswer")
        return add_routes(
            APIRouter(prefix=INCIDENTS + "/{incident_id}", tags=["incidents"]),
            *(
                Route(f"/{name}", "POST", self._handler(name), f"{name}Incident", given, accepts(shape))
                for name, (_, _, shape) in _ACTS.items()
            ),
        )

    def _handler(self, name: str) -> Callable[..., Awaitable[Response]]:
        async def act(request: Request, call: Writing, incident_id: str) -> Response:
            return await self._act(request, call, check_id(incident_id), name)

        act.__doc__ = f"{name.capitalize()} the incident; answers it as it is then."
        return act

    async def _act(self, request: Request, call: Call, incident_id: str, name: str) -> Response:
        kind, decoder, _ = _ACTS[name]
        is_empty = "content-type" not in request.headers and request.headers.get("content-length", "0") == "0"
        body = b"{}" if is_empty else await read_body(request, JSON_TYPES)
        said = decoder.decode(body)
        await self._require(call, incident_id)
        write = self._writer.begin(request, call, body)
        draft = draft_act(incident_id, kind, said, write.arrival)
        receipt = await self._writer.recorder.record(write.submission([draft]))
        raise_refusal(receipt)
        if receipt.settlement is None:
            return answer(receipt, {"incident_id": incident_id})
        now = await self._require(call, incident_id)
        return Response(now.document, headers=accepted_headers(receipt), media_type="application/json")
