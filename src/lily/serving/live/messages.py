"""What a reader of changes is sent."""

from __future__ import annotations

from typing import Any

from lily.access.decisions import Resource
from lily.domain.changes import Change, ChangeKind
from lily.serving.live.subscriptions import entity_type_of, severity_of

#: What happened to the asset in one of three words, by outcome; anything else has updated it.
_WORDS = {"created": "created", "restored": "created", "deleted": "deleted", "purged": "deleted"}


def change_message(change: Change, resource: Resource | None, cursor: str) -> dict[str, Any]:
    """A change: what it is about, what it did, and where to go on after it."""
    return {
        "type": "update",
        "metadata_id": change.subject or change.incident_id,
        "entity_type": entity_type_of(change, resource),
        "change": _word(change),
        "timestamp": change.applied_at.isoformat(),
        "kind": change.name,
        "detail": _detail(change),
        "cursor": cursor,
        "event_id": change.event_id,
        "cause": change.cause,
        "severity": severity_of(change),
    }


def _word(change: Change) -> str:
    """Of an incident attached to an asset it is the asset that is updated, whatever becomes of it."""
    if change.subject is None:
        return "created" if change.outcome == "opened" else "updated"
    return _WORDS.get(change.outcome, "updated") if change.kind is ChangeKind.ASSET else "updated"


def _detail(change: Change) -> dict[str, Any]:
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
