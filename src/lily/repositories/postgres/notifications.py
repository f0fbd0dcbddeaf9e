"""The notifications of a person: read, and got on with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lily.domain.notifications import State, after_step
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load

_QUERIES = load("notifications.sql")


@dataclass(frozen=True, slots=True)
class Notification:
    notification_id: str
    recipient: str
    group_key: str
    state: str
    count: int
    #: The newest message (lily.domain.messages.Message).
    message: Mapping[str, Any]
    asset_id: str | None
    incident_id: str | None
    snoozed_until: datetime | None
    assignee: str | None
    note: str
    first_at: datetime
    last_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Cause:
    """One change a notification stands for, and why it was told; the name of a subscription that is gone is
    None."""

    cause_key: str
    subscription_id: str
    subscription: str | None
    change: str
    event_id: str
    asset_id: str | None
    path: list[str]
    reason: str
    applied_at: datetime


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which notifications; None does not narrow."""

    states: Sequence[str] | None = None
    severity: str | None = None
    incident_id: str | None = None
    snoozed: bool = False
    before: tuple[datetime, str] | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Step:
    """What a person does about a notification; None leaves as it is."""

    state: State | None = None
    #: Until when; (None,) wakes it.
    snooze: tuple[datetime | None] | None = None
    #: To whom; (None,) to nobody.
    assign: tuple[str | None] | None = None
    note: str | None = None


class PostgresNotifications:
    """A person has their own notifications and those assigned to them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, tenant_id: str, person: str, wanted: Wanted) -> Sequence[Notification]:
        return await self._list(tenant_id, person, wanted, None)

    async def find(self, tenant_id: str, person: str, notification_id: str) -> Notification | None:
        found = await self._list(tenant_id, person, Wanted(snoozed=True, limit=1), notification_id)
        return found[0] if found else None

    async def causes(self, tenant_id: str, notification_id: str, limit: int) -> Sequence[Cause]:
        """The newest changes it stands for."""
        values = {"tenant_id": tenant_id, "id": notification_id, "limit": limit}
        return [Cause(*row) for row in await self._database.fetch(_QUERIES["list_causes"], values)]

    async def change(
        self, tenant_id: str, person: str, notification_id: str, step: Step
    ) -> Notification | None:
        """The notification after the step; None when the person has none of that id."""
        values: dict[str, Any] = {"tenant_id": tenant_id, "person": person, "id": notification_id}
        async with self._database.transaction(tenant_id) as connection:
            row = await (await connection.execute(_QUERIES["lock_notification"], values)).fetchone()
            if row is None:
                return None
            state = after_step(State(row[0]), step.state or State.NEW)
            values |= {
                "state": state.value,
                "note": step.note,
                "snoozes": step.snooze is not None,
                "snoozed_until": step.snooze[0] if step.snooze else None,
                "assigns": step.assign is not None,
                "assignee": step.assign[0] if step.assign else None,
            }
            changed = await (await connection.execute(_QUERIES["change_notification"], values)).fetchone()
        assert changed is not None
        return Notification(*changed)

    async def _list(
        self, tenant_id: str, person: str, wanted: Wanted, notification_id: str | None
    ) -> Sequence[Notification]:
        before, before_id = wanted.before or (None, None)
        values = {
            "tenant_id": tenant_id,
            "person": person,
            "id": notification_id,
            "states": None if wanted.states is None else list(wanted.states),
            "severity": wanted.severity,
            "incident_id": wanted.incident_id,
            "snoozed": wanted.snoozed,
            "before": before,
            "before_id": before_id,
            "limit": wanted.limit,
        }
        rows = await self._database.fetch(_QUERIES["list_notifications"], values)
        return [Notification(*row) for row in rows]
