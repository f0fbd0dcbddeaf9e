"""Incidents: what systems that watch data report about assets, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid5

_NAMESPACE = UUID("0b3c9d5e-52a4-5a0f-8f5f-3f0c6a0d9a41")


class Status(StrEnum):
    """Where an incident stands. Stored in `incidents.said`: never rename."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


class StepKind(StrEnum):
    """What a step of an incident is; what it changes is what it says."""

    OPENED = "opened"
    UPDATED = "updated"
    ACKNOWLEDGED = "acknowledged"
    ASSIGNED = "assigned"
    COMMENTED = "commented"
    RESOLVED = "resolved"
    REOPENED = "reopened"


#: From the gravest on, in the words most sources have.
SEVERITIES = ("SEV-1", "SEV-2", "SEV-3", "SEV-4")

#: The fields a step can speak about, each with the JSON types it may have; `None` clears it.
FIELDS: Mapping[str, tuple[type, ...]] = {
    "title": (str,),
    "status": (str,),
    "severity": (str,),
    "owner": (str,),
    "feedback": (str,),
    "url": (str,),
    "ticket": (str,),
    "rule": (dict,),
    "measurements": (list,),
    "names": (list,),
    "data_source": (str,),
    "source": (str,),
    "connector_id": (str,),
    "external_id": (str,),
}
MAX_TEXT = 4096
MAX_NAMES = 32
MAX_NAME = 512


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a source says about one of its incidents.

    `first` is what held when the incident began: it counts only where no other step says otherwise, so that
    a beginning that is reported late undoes nothing. A step without a time happened when it arrived.
    """

    external_id: str
    kind: StepKind
    said: Mapping[str, Any] = field(default_factory=dict)
    first: Mapping[str, Any] = field(default_factory=dict)
    comment: str = ""
    at: datetime | None = None


def incident_id(connector_id: str, external_id: str) -> str:
    """The same every time for what a source calls by one id."""
    return str(uuid5(_NAMESPACE, f"{connector_id}\x1f{external_id}"))


def what_is_wrong(said: Mapping[str, Any]) -> str:
    """Why these fields cannot be said of an incident; empty when they can."""
    for name, value in said.items():
        if name not in FIELDS:
            return f"{name}: there is no such field; known: {', '.join(FIELDS)}"
        if value is not None and not isinstance(value, FIELDS[name]):
            return f"{name}: must be {FIELDS[name][0].__name__} or null"
        if isinstance(value, str) and len(value) > MAX_TEXT:
            return f"{name}: has more than {MAX_TEXT:,} characters"
    return _wrong_value(said)


def _wrong_value(said: Mapping[str, Any]) -> str:
    status, severity, names = said.get("status"), said.get("severity"), said.get("names") or []
    if status is not None and status not in set(Status):
        return f"status: {status[:64]!r} is none of {', '.join(Status)}"
    if severity is not None and severity not in SEVERITIES:
        return f"severity: {severity[:64]!r} is none of {', '.join(SEVERITIES)}"
    if len(names) > MAX_NAMES or not all(
        isinstance(name, str) and 0 < len(name) <= MAX_NAME for name in names
    ):
        return f"names: at most {MAX_NAMES} texts of 1 to {MAX_NAME} characters"
    return ""


def kind_of(status: str | None, said: Sequence[str]) -> StepKind:
    """What a step is that says these fields and, if at all, this status."""
    if status is not None:
        return {
            Status.RESOLVED: StepKind.RESOLVED,
            Status.ACKNOWLEDGED: StepKind.ACKNOWLEDGED,
            Status.OPEN: StepKind.REOPENED,
        }[Status(status)]
    return StepKind.ASSIGNED if "owner" in said else StepKind.UPDATED
