"""Changes: what a record of `metadata-changes` or `notification-events` says, whatever it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from lily.domain.event_ids import first_member


class ChangeKind(StrEnum):
    """What has changed, by what was told."""

    ASSET = "asset"
    TAGS = "tags"  # other tags are effective on an asset
    INCIDENT = "incident"
    NOTIFICATION = "notification"  # nothing has changed: somebody wants it told


#: By the `ce_type` of the record that tells it.
KINDS = {
    "io.lily.asset.changed.v1": ChangeKind.ASSET,
    "io.lily.tags.changed.v1": ChangeKind.TAGS,
    "io.lily.incident.changed.v1": ChangeKind.INCIDENT,
    "io.lily.notification.requested.v1": ChangeKind.NOTIFICATION,
}


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that happened; told again after a crash or by a replay, it has the same `event_id`."""

    tenant_id: str
    kind: ChangeKind
    #: The asset it happened to; None for an incident that is attached to none.
    subject: str | None
    event_id: str
    outcome: str
    #: What led to it: changes of one cause belong together, such as those of a tag on everything downstream.
    cause: str
    applied_at: datetime
    data: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Kind and outcome, as subscriptions name them: `asset.created`, `incident.resolved` …"""
        return f"{self.kind}.{self.outcome}"

    @property
    def incident(self) -> Mapping[str, Any]:
        """The incident's document; empty when it is about something else."""
        return self.data.get("incident") or {}

    @property
    def incident_id(self) -> str:
        return str(self.data.get("incident_id") or "")


def read_change(event_type: str, data: Mapping[str, Any]) -> Change | None:
    """The change a record tells; None for one that tells something else, or not what it must."""
    kind = KINDS.get(event_type)
    tenant_id, event_id = data.get("tenant_id"), data.get("event_id")
    if kind is None or not tenant_id or not event_id:
        return None
    return Change(
        tenant_id=str(tenant_id),
        kind=kind,
        subject=data.get("asset_id") or None,
        event_id=str(event_id),
        outcome="changed" if kind is ChangeKind.TAGS else str(data.get("outcome") or "requested"),
        cause=str(data.get("cause") or _batch(str(event_id))),
        applied_at=_moment(data.get("applied_at")),
        data=data,
    )


def _batch(event_id: str) -> str:
    """Events accepted in one request have one cause: their batch."""
    try:
        return str(first_member(UUID(event_id)))
    except ValueError:
        return event_id


def _moment(text: object) -> datetime:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return at.replace(tzinfo=at.tzinfo or UTC)
