"""Changes told on `metadata-changes` as the relay would, for tests of who listens there."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Producer

from lily.domain.changes import KINDS, ChangeKind
from lily.domain.event_ids import new_batch_id
from lily.log.producer import client_config
from lily.log.topics import Topic
from lily.settings import KafkaSettings

_TYPES = {kind: event_type for event_type, kind in KINDS.items()}


def told(
    asset_id: str | None, kind: ChangeKind = ChangeKind.ASSET, tenant: str = "acme", **said: Any
) -> dict[str, Any]:
    """What a record says; without more, that an asset was updated."""
    return {
        "kind": kind,
        "tenant_id": tenant,
        "asset_id": asset_id,
        "event_id": str(new_batch_id(1)),
        "applied_at": datetime.now(UTC).isoformat(),
        "outcome": "updated",
        "changed": ["metadata"],
        "actor": "ada",
    } | said


def tell(kafka: KafkaSettings, *changes: dict[str, Any]) -> None:
    """Tell these in order, and return when the broker has them."""
    producer = Producer(client_config(kafka) | {"linger.ms": 0})
    topic = Topic.METADATA_CHANGES.under(kafka.topic_prefix)
    for change in changes:
        kind, data = change["kind"], {name: value for name, value in change.items() if name != "kind"}
        subject = data["asset_id"] or data.get("incident_id")
        headers = [("ce_type", _TYPES[kind].encode()), ("ce_tenantid", data["tenant_id"].encode())]
        producer.produce(topic, json.dumps(data).encode(), f"{data['tenant_id']}/{subject}", headers=headers)
    assert producer.flush(20) == 0
