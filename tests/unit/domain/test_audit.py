"""What the audit's chain promises."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lily.domain.audit import AuditEntry, beginning, entry_line, extend, parse_line, sign_head, storable

ENTRY = AuditEntry(
    tenant_id="acme",
    actor="ada",
    acting_as="steward",
    address="192.0.2.7",
    action="write",
    resource_kind="asset",
    resource_id="orders",
    allowed=True,
    reason="role steward",
    trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
    at=datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC),
    event_id=UUID("018f3a5e-0000-7000-8000-000000000000"),
    events=1,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
entries = st.builds(
    AuditEntry,
    *([texts] * 7),
    allowed=st.booleans(),
    reason=texts,
    trace_id=texts,
    at=st.datetimes(timezones=st.just(UTC)),
    event_id=st.none() | st.uuids(),
    events=st.integers(0, 1000),
)


@given(entries)
def test_a_line_is_read_back_as_the_entry_it_was_made_of(entry: AuditEntry) -> None:
    assert parse_line(entry_line(entry)) == entry
    assert b"\n" not in entry_line(entry)


@pytest.mark.parametrize("field", [field.name for field in fields(AuditEntry)])
def test_a_change_of_any_field_changes_the_hash(field: str) -> None:
    other: Any = {"allowed": False, "at": ENTRY.at + timedelta(microseconds=1), "event_id": None, "events": 2}
    changed = replace(ENTRY, **{field: other.get(field, "other")})
    assert extend(beginning("acme"), changed).hash != extend(beginning("acme"), ENTRY).hash


def test_text_cannot_move_from_one_field_to_the_next_unnoticed() -> None:
    moved = replace(ENTRY, actor='ada","steward', acting_as="")
    assert extend(beginning("acme"), moved).hash != extend(beginning("acme"), ENTRY).hash


def test_the_same_entry_has_another_hash_at_another_place() -> None:
    first = extend(beginning("acme"), ENTRY)
    assert extend(first, ENTRY).hash != first.hash


def test_chains_of_two_tenants_have_nothing_in_common() -> None:
    assert beginning("acme").hash != beginning("umbrella").hash


def test_a_seal_belongs_to_one_key_one_tenant_and_one_head() -> None:
    head = extend(beginning("acme"), ENTRY)
    seals = {
        sign_head(b"key", "acme", head),
        sign_head(b"other key", "acme", head),
        sign_head(b"key", "umbrella", head),
        sign_head(b"key", "acme", head._replace(seq=2)),
        sign_head(b"key", "acme", head._replace(hash=b"x" * 32)),
    }
    assert len(seals) == 5


def test_what_postgresql_cannot_keep_is_replaced_and_length_is_bounded() -> None:
    assert storable("a\x00b\ud800c") == "a\ufffdb\ufffdc"
    assert len(storable("x" * 10_000)) == 2000


@pytest.mark.parametrize("line", [b"", b"[", b"{}", b"[1]", b"null", b'["acme"'])
def test_a_torn_line_is_not_taken_for_an_entry(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is for the log
        parse_line(line)
