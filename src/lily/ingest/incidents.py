"""Steps of incidents as events: what a source reports, and what people do about it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, NotRequired

from pydantic import Field, with_config
from pydantic_core import to_json
from typing_extensions import TypedDict

from lily.domain.assets import Lane
from lily.domain.connectors import Connector
from lily.domain.errors import InvalidInput
from lily.domain.incidents import MAX_TEXT, Status, Step, StepKind, incident_id, what_is_wrong
from lily.ingest.assertions import MAX_AHEAD, Arrival, Draft
from lily.ingest.assets import STRICT
from lily.log.envelope import EventType

Words = Annotated[str, Field(min_length=1, max_length=MAX_TEXT, pattern=r"^[^\x00]*$")]


@with_config(STRICT)
class Remark(TypedDict):
    """Words that go with what is done."""

    comment: NotRequired[Words]


@with_config(STRICT)
class Assignment(TypedDict):
    """Who takes care of it; null is nobody."""

    owner: Annotated[str, Field(min_length=1, max_length=320, pattern=r"^[^\x00]*$")] | None
    comment: NotRequired[Words]


@with_config(STRICT)
class Resolution(TypedDict):
    """How it ended, in a word such as fixed, expected or false_positive."""

    feedback: NotRequired[Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9_]+$")]]
    comment: NotRequired[Words]


@with_config(STRICT)
class Comment(TypedDict):
    """A remark for the timeline."""

    comment: Words


def draft_step(step: Step, connector: Connector, arrival: Arrival) -> Draft:
    """The event of a step that a connector reports."""
    known = {
        "source": connector.type,
        "connector_id": connector.connector_id,
        "external_id": step.external_id,
    }
    first = {name: value for name, value in step.first.items() if name not in step.said}
    for said in (step.said, first):
        if detail := what_is_wrong(said):
            raise InvalidInput(f"the source's step cannot be kept: {detail}")
    at = step.at or arrival.time
    if at > arrival.time + MAX_AHEAD:
        raise InvalidInput(
            f"{at.isoformat()} is more than 24 hours ahead of now; check the clock of the source"
        )
    data = {"said": step.said, "first": first | known, "comment": step.comment, "event_time": at}
    return _draft(incident_id(connector.connector_id, step.external_id), step.kind, data)


def draft_act(incident: str, kind: StepKind, said: Mapping[str, Any], arrival: Arrival) -> Draft:
    """The event of what somebody does about an incident; `said` is a checked body."""
    fields: dict[str, Any] = {
        StepKind.ACKNOWLEDGED: {"status": Status.ACKNOWLEDGED.value},
        StepKind.RESOLVED: {"status": Status.RESOLVED.value} | _only(said, "feedback"),
        StepKind.REOPENED: {"status": Status.OPEN.value},
        StepKind.ASSIGNED: _only(said, "owner"),
        StepKind.COMMENTED: {},
    }[kind]
    data = {"said": fields, "comment": said.get("comment"), "event_time": arrival.time}
    return _draft(incident, kind, data)


def _only(said: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {name: said[name]} if name in said else {}


def _draft(incident: str, kind: StepKind, said: Mapping[str, Any]) -> Draft:
    moment: datetime = said["event_time"]
    data = {"incident_id": incident, "step": kind.value, "event_time": moment}
    data |= {name: value for name, value in said.items() if value}
    return Draft(incident, Lane.LINEAGE, EventType.INCIDENT_REPORTED, to_json(data))
