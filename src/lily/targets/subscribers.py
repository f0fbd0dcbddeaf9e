"""The subscriptions of every tenant in memory, by what they look at, each with whom it tells for."""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lily.access.principals import Principal
from lily.domain.changes import Change
from lily.domain.subscriptions import Subscription
from lily.repositories.postgres.announcements import Announcement, Announcements
from lily.repositories.postgres.subscriptions import ANNOUNCED, PostgresSubscriptions, Rights

#: What changes who is told: the subscriptions themselves, and whatever their owners' rights hang on.
_CONCERNING = frozenset({ANNOUNCED, "user", "group", "key"})


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A subscription and the principal by whose rights it tells."""

    subscription: Subscription
    principal: Principal


class Subscribers:
    """Those of one tenant; immutable, and good until the first of their credentials ends."""

    def __init__(self, subscribers: Sequence[Subscriber], expires: float = math.inf) -> None:
        self.expires = expires
        self._by_id = {each.subscription.subscription_id: each for each in subscribers}
        self._by_asset: dict[str, list[Subscriber]] = defaultdict(list)
        self._of_any: list[Subscriber] = []
        for each in subscribers:
            for asset_id in each.subscription.selection.assets:
                self._by_asset[asset_id].append(each)
            if not each.subscription.selection.assets:
                self._of_any.append(each)

    def __bool__(self) -> bool:
        return bool(self._by_id)

    def looking_at(self, change: Change) -> Iterator[Subscriber]:
        """Those whose selection the change may belong to, by what it tells itself."""
        if named := change.data.get("subscription_id"):
            if found := self._by_id.get(str(named)):
                yield found
            return
        for each in (*self._by_asset.get(change.subject or "", ()), *self._of_any):
            if each.subscription.selection.looks_at(change):
                yield each


class LiveSubscribers:
    """Read once per tenant and again after a change; ask `Access.refresh` first, which waits until changes
    are heard."""

    def __init__(self, announcements: Announcements, subscriptions: PostgresSubscriptions) -> None:
        self._subscriptions = subscriptions
        self._known: dict[str, Subscribers] = {}
        self._changes: dict[str, int] = defaultdict(int)
        self._losses = 0
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        announcements.subscribe(self._hear)

    async def of(self, tenant_id: str) -> Subscribers:
        async with self._turns[tenant_id]:
            found = self._known.get(tenant_id)
            while found is None or found.expires <= time.time():
                before = (self._changes[tenant_id], self._losses)
                loaded = await self._subscriptions.load(tenant_id)
                if before == (self._changes[tenant_id], self._losses):
                    ends = [rights.expires for _, rights in loaded if rights.expires is not None]
                    subscribers = [Subscriber(s, _principal(tenant_id, rights)) for s, rights in loaded]
                    found = Subscribers(subscribers, min(ends, default=math.inf))
                    self._known[tenant_id] = found
            return found

    def _hear(self, announcement: Announcement | None) -> None:
        if announcement is None:
            self._losses += 1
            self._known.clear()
        elif announcement.kind in _CONCERNING:
            self._changes[announcement.tenant_id] += 1
            self._known.pop(announcement.tenant_id, None)


def _principal(tenant_id: str, rights: Rights) -> Principal:
    scopes = None if rights.scopes is None else frozenset(rights.scopes)
    owner, groups = rights.owner, rights.owner_groups
    if rights.key_name is None:
        return Principal(tenant_id, owner, rights.roles | rights.owner_roles, groups, scopes)
    return Principal(
        tenant_id,
        f"key:{rights.key_name}",
        rights.roles,
        groups,
        scopes,
        owner=owner,
        owner_roles=rights.owner_roles,
        owner_groups=groups | rights.key_groups,
    )
