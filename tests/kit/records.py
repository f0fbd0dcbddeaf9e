"""Records as they lie on the log, sound and poisonous, and a batch of them as the Kafka source gives it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from lily.log.envelope import Envelope, EventType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_numbers = count(1)
_SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
#: The same as Arrow has them, which is how the lanes take them.
RECORDS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
RECEIVED = datetime(2026, 1, 2, tzinfo=UTC)

Headers = list[tuple[str, bytes]]


@dataclass(frozen=True)
class LogRecord:
    """One record; `reason` is why it must become a dead letter, None if it must be applied."""

    claim: str
    value: bytes | None
    headers: Headers | None
    reason: str | None = None


def envelope(data: bytes = b"{}", event_type: EventType = EventType.ASSET_ASSERTED) -> Envelope:
    number = next(_numbers)
    return Envelope(
        event_id=UUID(int=(7 << 76 | 2 << 62) + number),
        event_type=event_type,
        source="lily/tests",
        tenant_id="acme",
        subject=f"asset-{number}",
        time=RECEIVED,
        data=data,
        actor="ada",
    )


def sound(claim: str, payload: Any = None, **replaced: bytes | None) -> LogRecord:
    """A record that must be applied. `payload` is merged into a table's, or taken as it is if it is bytes."""
    return _record(claim, payload, None, replaced)


def poison(claim: str, reason: str, payload: Any = None, **replaced: bytes | None) -> LogRecord:
    """A record that must become a dead letter; keywords replace headers (`ce_id=…`), None leaves one out."""
    return _record(claim, payload, reason, replaced)


def _record(claim: str, payload: Any, reason: str | None, replaced: dict[str, bytes | None]) -> LogRecord:
    made = envelope()
    plain = {"asset_id": made.subject, "asset_name": claim, "asset_type": "table"}
    value = payload if isinstance(payload, bytes) else json.dumps(plain | (payload or {})).encode()
    headers = [(k, replaced.get(k, v)) for k, v in made.headers()]
    return LogRecord(claim, value, [(k, v) for k, v in headers if v is not None], reason)


def batch(session: SparkSession, records: Sequence[LogRecord]) -> DataFrame:
    """The records in this order, at the offsets 0, 1, … of one partition."""
    rows = [
        (b"key", record.value, "events", 0, offset, RECEIVED, record.headers)
        for offset, record in enumerate(records)
    ]
    return session.createDataFrame(rows, _SCHEMA)
