"""Records made many at a time are those their envelopes would have made."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from lily.domain.event_ids import batch_id_from_key, members, new_batch_id
from lily.log.envelope import Envelope, EventType
from lily.log.records import RecordTemplate, member_texts, record_of


def envelope(event_id: UUID, subject: str, data: bytes) -> Envelope:
    return Envelope(
        event_id=event_id,
        event_type=EventType.ASSET_ASSERTED,
        source="/lily/v1",
        tenant_id="acme",
        subject=subject,
        time=datetime(2026, 1, 1, tzinfo=UTC),
        data=data,
        actor="ada",
        traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-00",
    )


@pytest.mark.parametrize("subject", ["orders", "a/b", "größe", "acme"])
def test_a_template_makes_the_record_of_the_envelope(subject: str) -> None:
    event_id = new_batch_id(1)
    template = RecordTemplate(envelope(UUID(int=0), "", b""))
    made = template.record(str(event_id).encode(), subject, b"{}")
    assert made == record_of(envelope(event_id, subject, b"{}"))


@pytest.mark.parametrize("size", [1, 2, 16, 1000, 1024])
def test_member_texts_are_the_ids_of_the_members(size: int) -> None:
    for batch_id in (new_batch_id(1_700_000_000_000, size), batch_id_from_key("s", "k", size)):
        assert list(member_texts(batch_id)) == [str(member).encode() for member in members(batch_id)]
