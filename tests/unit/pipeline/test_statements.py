"""What a record on `metadata-events` says, or why it is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pytest

from kit.records import RECORDS
from lily.log.envelope import EventType
from lily.pipeline.statement_staging import stage_statements

RECEIVED = datetime(2026, 1, 2, tzinfo=UTC)
EDGE = {"from_asset_id": "a", "to_asset_id": "b", "relationship_type": "contains"}


def record(payload: Any, event_type: EventType, **replaced: bytes) -> dict[str, Any]:
    headers = {
        "ce_id": str(uuid4()).encode(),
        "ce_type": event_type.value.encode(),
        "ce_tenantid": b"acme",
        "ce_source": b"test",
        "ce_actor": b"ada",
    } | replaced
    return {
        "topic": "metadata-events",
        "partition": 1,
        "offset": 7,
        "timestamp": RECEIVED,
        "key": b"acme/a",
        "value": payload if isinstance(payload, bytes) else json.dumps(payload).encode(),
        "headers": [{"key": name, "value": value} for name, value in headers.items()],
    }


def staged(
    payload: Any, event_type: EventType = EventType.EDGE_ASSERTED, **replaced: bytes
) -> SimpleNamespace:
    """The row a record is staged as, in one batch with a record that is fit."""
    records = [record(payload, event_type, **replaced), record(EDGE, EventType.EDGE_ASSERTED)]
    row, fit = stage_statements(pa.Table.from_pylist(records, RECORDS)).to_pylist()
    assert fit["reason"] is None
    return SimpleNamespace(**row)


def test_an_edge_is_staged_with_what_it_says() -> None:
    row = staged(EDGE | {"blocked_tags": ["PII"], "is_masking": True, "event_time": "2026-01-01T00:00:00Z"})
    assert (row.reason, row.kind, row.holds, row.source) == (None, "edge", True, "api")
    assert (row.from_id, row.to_id, row.relationship_type, row.tags) == ("a", "b", "contains", ["PII"])
    assert row.event_time == datetime(2026, 1, 1, tzinfo=UTC)
    assert json.loads(row.body or "") == {"is_masking": True}


def test_an_event_without_a_time_happened_when_it_was_received() -> None:
    assert staged(EDGE).event_time == RECEIVED


@pytest.mark.parametrize(
    ("reason", "payload"),
    [
        ("empty", b""),
        ("malformed", b"[]"),
        ("malformed", b"{"),
        ("malformed", b"[" * 100_000),
        ("malformed", b'{"a": NaN}'),
        ("malformed", b'{"a": "\\ud800"}'),
        ("malformed", b'{"from_asset_id": "a", "to_asset_id": "b", "relationship_type": "uses", "n": 1e999}'),
        ("malformed", b"\xff"),
        ("malformed", EDGE | {"is_masking": "yes"}),
        ("nul_character", b'{"a": "\\u0000"}'),
        ("no_asset_id", {"to_asset_id": "b", "relationship_type": "contains"}),
        ("no_asset_id", EDGE | {"to_asset_id": "x\n"}),
        ("bad_relationship_type", EDGE | {"relationship_type": "likes"}),
        ("bad_time", EDGE | {"event_time": "yesterday"}),
        ("bad_source", EDGE | {"source": "*"}),
        ("bad_tags", EDGE | {"blocked_tags": "PII"}),
        ("too_large", EDGE | {"from_asset_id": "\N{PILE OF POO}" * 500, "to_asset_id": "é" * 500}),
    ],
)
def test_what_cannot_be_applied_becomes_a_dead_letter(reason: str, payload: Any) -> None:
    row = staged(payload)
    assert (row.reason, row.kind, row.tenant_id) == (reason, None, "acme")
    assert row.payload == (payload if isinstance(payload, bytes) else json.dumps(payload).encode())


def test_a_record_without_an_envelope_becomes_a_dead_letter() -> None:
    assert staged(EDGE, ce_id=b"\xff").reason == "no_id"
    assert staged(EDGE, ce_id=b"a\x00").reason == "no_id"
    assert staged(EDGE, ce_tenantid=b"a/b").reason == "no_tenant"
    assert staged(EDGE, ce_type=b"io.lily.other").reason == "unknown_type"


def test_everybody_can_only_be_retracted() -> None:
    assert staged(EDGE | {"source": "*"}, EventType.EDGE_RETRACTED).holds is False


def test_an_id_that_is_no_uuid_becomes_one_that_is_always_the_same() -> None:
    first, again = (staged(EDGE, ce_id=b"run-7").event_id for _ in range(2))
    assert first == again != staged(EDGE, ce_id=b"run-7", ce_source=b"other").event_id
    assert UUID(first)
