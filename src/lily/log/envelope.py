"""The envelope of every record on the log: CloudEvents 1.0, Kafka binary mode, plus `traceparent`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

SPEC_VERSION = b"1.0"
CONTENT_TYPE = b"application/json"

#: The largest event Lily applies; larger ones become dead letters.
MAX_EVENT_BYTES = 1024 * 1024


#: Headers in the type Kafka's client asks for.
Headers = list[tuple[str, str | bytes | None]]


class EventType(StrEnum):
    """What an event says. The names are public: they are in `ce_type`."""

    ASSET_ASSERTED = "io.lily.asset.asserted.v1"  # these fields have these values
    ASSET_PURGED = "io.lily.asset.purged.v1"  # forget everything said before
    EDGE_ASSERTED = "io.lily.edge.asserted.v1"
    EDGE_RETRACTED = "io.lily.edge.retracted.v1"
    TAGS_ASSERTED = "io.lily.tags.asserted.v1"
    TAGS_RETRACTED = "io.lily.tags.retracted.v1"
    TAGS_DECLINED = "io.lily.tags.declined.v1"  # the asset opts out of them
    TAGS_ADMITTED = "io.lily.tags.admitted.v1"
    TAG_DEFINED = "io.lily.tag.defined.v1"
    TAG_UNDEFINED = "io.lily.tag.undefined.v1"
    SCRAPE_REQUESTED = "io.lily.scrape.requested.v1"  # on scraping-job-events
    INCIDENT_REPORTED = "io.lily.incident.reported.v1"  # a step of an incident
    ASSET_CHANGED = "io.lily.asset.changed.v1"  # told on metadata-changes
    TAGS_CHANGED = "io.lily.tags.changed.v1"  # told on metadata-changes: other tags are effective now
    NOTIFICATION_REQUESTED = "io.lily.notification.requested.v1"  # on notification-events
    INCIDENT_CHANGED = "io.lily.incident.changed.v1"  # told on metadata-changes
    EVENT_REFUSED = "io.lily.event.refused.v1"  # told on dead-letters


@dataclass(frozen=True, slots=True)
class Envelope:
    """One event as it goes onto the log; `data` is its JSON payload."""

    event_id: UUID
    event_type: EventType
    source: str
    tenant_id: str
    subject: str  # the asset's id
    time: datetime  # when Lily accepted it
    data: bytes
    actor: str = ""
    traceparent: str = ""

    @property
    def key(self) -> bytes:
        """Tenant and asset: the broker keeps all events of one asset in order."""
        return f"{self.tenant_id}/{self.subject}".encode()

    def headers(self) -> Headers:
        headers: Headers = [
            ("ce_specversion", SPEC_VERSION),
            ("ce_id", str(self.event_id).encode()),
            ("ce_type", self.event_type.value.encode()),
            ("ce_source", self.source.encode()),
            ("ce_time", self.time.isoformat().encode()),
            ("ce_subject", self.subject.encode()),
            ("ce_tenantid", self.tenant_id.encode()),
            ("content-type", CONTENT_TYPE),
        ]
        if self.actor:
            headers.append(("ce_actor", self.actor.encode()))
        if self.traceparent:
            headers.append(("traceparent", self.traceparent.encode()))
        return headers
