"""What a reader of changes is sent."""

from __future__ import annotations

from typing import Any

from lily.access.decisions import Resource
from lily.domain.changes import Change, ChangeKind
from lily.serving.live.subscriptions import entity_type_of, severity_of


def change_message(change: Change, resource: Resource | None, cursor: str) -> dict[str, Any]:
    """A change: what it is about, what it did, and where to go on after it."""
    return {
        "type": change.name,
        "metadata_id": change.subject or change.incident_id,
        "entity_type": entity_type_of(change, resource),
        "change": _change(change),
        "timestamp": change.applied_at.isoformat(),
        "cursor": cursor,
        "event_id": change.event_id,
        "cause": change.cause,
        "severity": severity_of(change),
    }


def _change(change: Change) -> dict[str, Any]:
    data = change.data
    if change.kind is ChangeKind.TAGS:
        return {"added": data.get("added") or [], "removed": data.get("removed") or []}
    said: dict[str, Any] = {"outcome": change.outcome, "changed": data.get("changed") or []}
    if change.kind is ChangeKind.INCIDENT:
        known = {
            name: change.incident.get(name) for name in ("title", "status", "url") if name in change.incident
        }
        return said | {"incident_id": change.incident_id} | known
    return said | ({"version": data["version"]} if "version" in data else {})
