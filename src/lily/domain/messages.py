"""Messages: what a target is to say about a change, before it is said in the target's own way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

#: Severity of what is no incident and bears none.
INFO = "info"


@dataclass(frozen=True, slots=True)
class Message:
    """Plain text throughout: whoever renders it escapes it for where it goes.

    Messages with one `group_key` are about the same thing: a target that can, shows the newest in the place
    of the one before.
    """

    title: str
    text: str
    severity: str
    #: What happened: `incident.opened`, `asset.deleted` …
    change: str
    #: Of an incident: open, acknowledged, resolved …; empty for everything else.
    state: str
    #: Why this is told: which subscription, and by what it matched.
    reason: str
    group_key: str
    #: Label and value, in the order to show them.
    fields: tuple[tuple[str, str], ...] = ()
    asset_id: str | None = None
    asset_name: str = ""
    incident_id: str = ""
    link: str = ""
    #: How many changes the message stands for.
    count: int = 1
    #: The event that was the change: under it the audit, the dead letters and the traces know it.
    event_id: str = ""

    def document(self) -> dict[str, Any]:
        """As JSON can hold it; `read_message` is the way back."""
        return asdict(self) | {"fields": [list(field) for field in self.fields]}


def read_message(document: Mapping[str, Any]) -> Message:
    fields = tuple((label, value) for label, value in document.get("fields", ()))
    return Message(**{**document, "fields": fields})
