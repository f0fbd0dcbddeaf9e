"""A person's notifications for every interface: of what they may still see, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lily.access.assets import AssetGuard
from lily.access.calls import Call
from lily.access.decisions import Action, Resource
from lily.domain.errors import NotFound
from lily.repositories.postgres.notifications import (
    Cause,
    Notification,
    PostgresNotifications,
    Step,
    Wanted,
)

#: So many rows are looked through for one page: the next page goes on where this one stopped.
_MOST_LOOKS = 20
_MOST_CAUSES = 1000

Place = tuple[datetime, str]


@dataclass(frozen=True)
class Notifications:
    """Decided when read, on the assets as they are then: what was told before is hidden with its asset."""

    stored: PostgresNotifications
    guard: AssetGuard

    async def page(self, call: Call, wanted: Wanted) -> tuple[list[Notification], Place | None]:
        """The next notifications the caller may see, and where to go on if there may be more."""
        page: list[Notification] = []
        size = wanted.limit
        for _ in range(_MOST_LOOKS):
            rows = await self.stored.list(
                call.tenant_id, call.principal.person, replace(wanted, limit=size + 1)
            )
            for each in await self._visible(call, rows[:size]):
                page.append(each)
                if len(page) == size:
                    return page, None if each is rows[-1] else _place(each)
            if len(rows) <= size:
                return page, None
            wanted = replace(wanted, before=_place(rows[size - 1]))
        return page, wanted.before

    async def find(self, call: Call, notification_id: str) -> Notification:
        found = await self.stored.find(call.tenant_id, call.principal.person, notification_id)
        if found is not None and not await self._visible(call, [found]):
            what = ("notification", notification_id)
            call.notebook.write("read", what, False, "it is shown to whom its asset is shown")
            found = None
        if found is None:
            raise NotFound(
                f"you have no notification {notification_id}; GET /lily/v1/notifications lists yours"
            )
        return found

    async def change(self, call: Call, notification_id: str, step: Step) -> Notification:
        """The notification after the caller did something about it."""
        await self.find(call, notification_id)
        person = call.principal.person
        changed = await self.stored.change(call.tenant_id, person, notification_id, step)
        if changed is None:
            raise NotFound(f"you have no notification {notification_id} any more")
        return changed

    async def why(self, call: Call, notification_id: str) -> list[Cause]:
        """The changes it stands for that the caller may see, each with the subscription that told it.

        A path of which they may not see everything is not shown.
        """
        await self.find(call, notification_id)
        causes = await self.stored.causes(call.tenant_id, notification_id, _MOST_CAUSES)
        named = {asset_id for cause in causes for asset_id in (cause.asset_id, *cause.path) if asset_id}
        readable = await self.guard.show(call, sorted(named), "notifications") if named else set()
        return [
            replace(cause, path=cause.path if readable.issuperset(cause.path) else [])
            for cause in causes
            if cause.asset_id is None or cause.asset_id in readable
        ]

    async def _visible(self, call: Call, found: Sequence[Notification]) -> list[Notification]:
        about = sorted({each.asset_id for each in found if each.asset_id is not None})
        readable = await self.guard.show(call, about, "notifications") if about else set()
        incidents = (await call.decide(Action.READ, Resource(call.tenant_id, "incident"))).allowed
        return [
            each
            for each in found
            if (each.asset_id in readable if each.asset_id else incidents or not each.incident_id)
        ]


def _place(notification: Notification) -> Place:
    return notification.last_at, notification.notification_id
