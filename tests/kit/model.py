"""The reference model of the merge rule: the oracle for `queries/apply.sql`, written to be read.

State is what a set of events says, whatever their order: for every field, the value in the newest event that
mentions it. Only `version` and the outcomes depend on the order of arrival.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from lily.domain.assets import ALL_FIELDS, VISIBLE_CHANGES, Field, Outcome

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """What one event says of one asset; a field that is not in `said` was not mentioned."""

    event_id: UUID
    event_time: datetime
    asset_id: str
    said: Mapping[Field, Any]
    created_at: datetime | None = None
    expected_version: int | None = None

    @property
    def clock(self) -> tuple[datetime, UUID]:
        """What decides between two events: the time they speak of, then their ids, byte by byte."""
        return self.event_time, self.event_id

    @property
    def mask(self) -> int:
        return sum(self.said)


def purge(event_id: UUID, event_time: datetime, asset_id: str) -> Event:
    """An event that says nothing is known of any field any more."""
    return Event(event_id, event_time, asset_id, dict.fromkeys(ALL_FIELDS))


def state_of(events: list[Event]) -> Row:
    """The stored row of an asset about which exactly these events were applied, but for its version."""
    newest = max(events, key=lambda event: event.clock)
    row: Row = {
        "fields": newest.mask,
        "clock_time": newest.event_time,
        "clock_id": newest.event_id,
        "created_at": min(moment for e in events for moment in (e.event_time, e.created_at) if moment),
    }
    clocks = {}
    for name in ALL_FIELDS:
        winner = max((e for e in events if name in e.said), key=lambda event: event.clock, default=None)
        row[str(name.name).lower()] = winner.said[name] if winner else None
        if winner and winner is not newest:
            clocks[str(int(name))] = [
                (winner.event_time - _EPOCH) // timedelta(microseconds=1),
                str(winner.event_id),
            ]
    return row | {"clocks": clocks or None}


@dataclass(frozen=True)
class Change:
    """What applying one event did: its row in `changes`."""

    event_id: UUID
    outcome: Outcome
    version: int
    changed: int  # the fields a reader sees differently, as bits


@dataclass
class Asset:
    """One asset and all events applied to it."""

    events: list[Event] = field(default_factory=list)
    version: int = 0

    def row(self) -> Row:
        return state_of(self.events) | {"version": self.version}

    def apply(self, event: Event) -> Change:
        if event.expected_version not in (None, self.version):
            return Change(event.event_id, Outcome.REFUSED, self.version, 0)
        before = state_of(self.events) if self.events else {}
        self.events.append(event)
        after = state_of(self.events)
        says_otherwise = any(before.get(_column(name)) != value for name, value in event.said.items())
        changed = sum(name for name in event.said if before.get(_column(name)) != after[_column(name)])
        if not before or says_otherwise:
            self.version += 1
        outcome = _outcome(before, after, says_otherwise, changed)
        return Change(event.event_id, outcome, self.version, changed)


def _outcome(before: Row, after: Row, says_otherwise: bool, changed: int) -> Outcome:
    if before and not says_otherwise:
        return Outcome.UNCHANGED
    if before and not changed:
        return Outcome.SUPERSEDED
    if not _is_visible(after):
        return Outcome.PURGED if _is_visible(before) else Outcome.PENDING
    if not _is_visible(before):
        return Outcome.CREATED
    was_deleted, is_deleted = bool(before["is_deleted"]), bool(after["is_deleted"])
    if is_deleted != was_deleted:
        return Outcome.DELETED if is_deleted else Outcome.RESTORED
    return Outcome.UPDATED


def _is_visible(row: Row) -> bool:
    return row.get("asset_name") is not None and row.get("asset_type") is not None


def _column(name: Field) -> str:
    return str(name.name).lower()


@dataclass
class Model:
    """All assets of one tenant and everything that happened to them, in order."""

    assets: dict[str, Asset] = field(default_factory=dict)
    changes: dict[UUID, Change] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """An event counts once, however often it is delivered."""
        if event.event_id in self.changes:
            return
        asset = self.assets.setdefault(event.asset_id, Asset())
        self.changes[event.event_id] = asset.apply(event)

    def rows(self) -> dict[str, Row]:
        return {asset_id: asset.row() for asset_id, asset in self.assets.items() if asset.events}

    def told(self) -> list[UUID]:
        """The events a subscriber hears of."""
        told = VISIBLE_CHANGES | {Outcome.SUPERSEDED}
        return [change.event_id for change in self.changes.values() if change.outcome in told]
