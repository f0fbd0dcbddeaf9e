"""Builders: an event with defaults, of which a test states only what it is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

from kit.model import Event, purge
from lily.domain.assets import Field

_START = datetime(2026, 1, 1, tzinfo=UTC)
_numbers = count(1)


def at(minute: int) -> datetime:
    return _START + timedelta(minutes=minute)


def next_id() -> UUID:
    """Every call a greater one, so that of two events at the same time the later made one wins."""
    return UUID(int=(7 << 76 | 2 << 62) + next(_numbers))


def event(asset_id: str = "orders", minute: int = 0, event_id: UUID | None = None, **said: Any) -> Event:
    """An event about `asset_id`; keywords are its fields, but for `created_at` and `expected_version`."""
    created_at, expected = said.pop("created_at", None), said.pop("expected_version", None)
    fields = {Field[name.upper()]: value for name, value in said.items()}
    return Event(event_id or next_id(), at(minute), asset_id, fields, created_at, expected)


def table(asset_id: str = "orders", minute: int = 0, **said: Any) -> Event:
    """An event that makes the asset visible: a table with a name."""
    return event(asset_id, minute, **({"asset_name": "Orders", "asset_type": "table"} | said))


def purging(asset_id: str = "orders", minute: int = 0) -> Event:
    return purge(next_id(), at(minute), asset_id)
