"""Finds what is to be told: for a batch of changes the subscriptions that ask for them and may tell them.

Set-based: whatever the number of changes and subscriptions, a tenant's batch costs one question about assets,
one about containers where rights depend on them, one about names, and one per hop where lineage matters: if
a subscription follows it, and for incidents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lily.access.decision_points import Access
from lily.domain.assets import Traits
from lily.domain.changes import Change, ChangeKind
from lily.domain.conditions import Circumstances
from lily.domain.errors import Unavailable
from lily.domain.subscriptions import Match
from lily.domain.wording import Told, compose
from lily.repositories.postgres.assets import PostgresAssets
from lily.repositories.postgres.lineage import PostgresLineage
from lily.targets.blast_radius import BlastRadius
from lily.targets.reaches import Reaches
from lily.targets.sights import Sights, is_for, origins_of
from lily.targets.subscribers import LiveSubscribers, Subscriber, Subscribers

_TRIES = 5


@dataclass(frozen=True)
class Subscriptions:
    """Nobody is told of what they could not read themselves: decided now, by the rules in force."""

    subscribers: LiveSubscribers
    assets: PostgresAssets
    lineage: PostgresLineage
    access: Access
    #: Under which links in messages are.
    base_url: str = ""

    async def listens_to(self, tenant_id: str) -> bool:
        """Whether the tenant has subscriptions; `Unavailable` when that cannot be known now."""
        await self.access.refresh(tenant_id)
        return bool(await self.subscribers.of(tenant_id))

    async def matching(self, changes: Sequence[Change]) -> Sequence[Match]:
        """What is to be told, in the order of the changes; `Unavailable` when rights cannot be known now."""
        by_tenant: dict[str, list[Change]] = defaultdict(list)
        for change in changes:
            by_tenant[change.tenant_id].append(change)
        found = [match for tenant, told in by_tenant.items() for match in await self._of_tenant(tenant, told)]
        order = {id(change): place for place, change in enumerate(changes)}
        return sorted(found, key=lambda match: order[id(match.change)])

    async def _of_tenant(self, tenant_id: str, changes: Sequence[Change]) -> list[Match]:
        """Found by rules and subscriptions that were in force from beginning to end; else found anew."""

        async def attempt(access: Access) -> tuple[Subscribers, list[Match]]:
            subscribers = await self.subscribers.of(tenant_id)
            return subscribers, await self._found(access, tenant_id, subscribers, changes)

        for _ in range(_TRIES):
            subscribers, found = await self.access.settle(tenant_id, attempt)
            if await self.subscribers.of(tenant_id) is subscribers:
                return found
        raise Unavailable(f"the subscriptions of {tenant_id} change faster than can be followed; try again")

    async def _found(
        self, access: Access, tenant_id: str, subscribers: Subscribers, changes: Sequence[Change]
    ) -> list[Match]:
        looked = [(each, change) for change in changes for each in subscribers.looking_at(change)]
        if not looked:
            return []
        seen = Sights(tenant_id, access, Circumstances(datetime.now(UTC)))
        await self._look(seen, {subject for _, change in looked for subject in _mentioned(change)})
        told = [
            (each, change)
            for each, change in looked
            if _covers(each, change, seen) and seen.may(each, change)
        ]
        reaches = await self._reaches(tenant_id, told, seen)
        return await self._matches(
            tenant_id,
            [
                (each, change, path)
                for each, change in told
                if (path := reaches.path(each, change)) is not None
            ],
            seen,
        )

    async def _look(self, sights: Sights, asset_ids: Iterable[str]) -> None:
        """Get to know these assets."""
        new = [asset_id for asset_id in asset_ids if asset_id not in sights.looked]
        if new:
            known = await self.assets.traits(sights.tenant_id, new)
            inside = await self.assets.containers(sights.tenant_id, new)
            sights.add(new, known, inside)

    async def _reaches(
        self, tenant_id: str, told: Sequence[tuple[Subscriber, Change]], seen: Sights
    ) -> Reaches:
        reaches = Reaches(seen)
        starts = reaches.starts(told)
        if starts:
            ids = await reaches.walk(self.lineage, tenant_id, starts)
            await self._look(seen, ids)
        return reaches

    async def _matches(
        self,
        tenant_id: str,
        told: Sequence[tuple[Subscriber, Change, tuple[str, ...]]],
        seen: Sights,
    ) -> list[Match]:
        subjects = {change.subject for _, change, _ in told if change.subject}
        names = await self.lineage.nodes(tenant_id, sorted(subjects)) if subjects else {}
        radius = await self._radius(tenant_id, [change for _, change, _ in told], seen)
        matches = []
        for each, change, path in told:
            node = names.get(change.subject or "")
            what = Told(
                change,
                seen.assets.get(change.subject or ""),
                (node.asset_name if node else None) or "",
                path,
                seen.origins(each.principal, change),
                radius.told(each.principal, change.subject, seen)
                if change.kind is ChangeKind.INCIDENT and change.subject
                else "",
            )
            message = compose(each.subscription, what, self.base_url)
            matches.append(Match(each.subscription, change, change.event_id, message, path))
        return matches

    async def _radius(self, tenant_id: str, changes: Iterable[Change], seen: Sights) -> BlastRadius:
        """What lies below the assets of incidents; it costs one question per hop for all of them."""
        radius = BlastRadius()
        starts = {each.subject for each in changes if each.subject and each.kind is ChangeKind.INCIDENT}
        if found := await radius.walk(self.lineage, tenant_id, starts):
            await self._look(seen, found)
        return radius


def _covers(subscriber: Subscriber, change: Change, seen: Sights) -> bool:
    if is_for(subscriber, change):
        return True
    asset = seen.assets.get(change.subject or "") or Traits(change.subject or "")
    return subscriber.subscription.selection.covers(change, asset)


def _mentioned(change: Change) -> set[str]:
    return origins_of(change) | ({change.subject} if change.subject else set())
