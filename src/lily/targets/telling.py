"""The telling loop: from changes on the log to deliveries, for every subscription that wants to hear of them.

Offsets are committed after the deliveries are: what was read by one that died is read again by another, and a
delivery that is there already is left as it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID

import psycopg
import structlog
from confluent_kafka import KafkaException
from pydantic_core import from_json

from lily.domain.changes import Change, read_change
from lily.domain.deliveries import KEPT_DAYS, NewDelivery
from lily.domain.errors import Unavailable
from lily.domain.notifications import newest_of_groups
from lily.domain.subscriptions import Match
from lily.domain.tenants import is_tenant_name
from lily.log.changes import ChangeFeed, ChangeRecord, Skimmed
from lily.repositories.postgres.deliveries import DeliveryQueues
from lily.targets.opened import OpenTargets

_POLL_SECONDS = 1.0
#: How many changes are matched at once, and how many are looked through for those somebody listens to.
_MOST = 500
_MOST_SKIMMED = 2000
#: After changes nobody listens to the next are let gather, and that they are done with is told this seldom.
_PAUSE_SECONDS = 0.05
_COMMIT_SECONDS = 1.0
_RETRY_SECONDS = 0.5
_INTERRUPTED = (psycopg.OperationalError, psycopg.InterfaceError, Unavailable, OSError, TimeoutError)

_log = structlog.get_logger(__name__)


class Matcher(Protocol):
    """Knows the subscriptions (`targets.matching.Subscriptions`)."""

    async def listens_to(self, tenant_id: str) -> bool: ...

    async def matching(self, changes: Sequence[Change]) -> Sequence[Match]: ...


class Telling:
    """Runs until it is cancelled."""

    def __init__(
        self, feed: ChangeFeed, matcher: Matcher, queues: DeliveryQueues, targets: OpenTargets
    ) -> None:
        self._feed = feed
        self._matcher = matcher
        self._queues = queues
        self._targets = targets
        self._done: dict[tuple[str, int], int] = {}
        self._commit_at = 0.0

    async def run(self) -> None:
        while True:
            try:
                skimmed = await asyncio.to_thread(self._feed.skim, _POLL_SECONDS, _MOST_SKIMMED)
                listened = await self._enqueue_surely(skimmed)
                self._done |= skimmed.ends
                if listened or not skimmed or time.monotonic() > self._commit_at:
                    await self._commit()
                if skimmed and not listened:
                    await asyncio.sleep(_PAUSE_SECONDS)
            except KafkaException as error:
                _log.warning("changes_not_read", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    async def _commit(self) -> None:
        if self._done:
            done, self._done = self._done, {}
            await asyncio.to_thread(self._feed.commit, done)
            self._commit_at = time.monotonic() + _COMMIT_SECONDS

    async def _enqueue_surely(self, skimmed: Skimmed) -> bool:
        """Return when all of them are done with, however long the database is away; whether somebody listens
        to any."""
        while True:
            try:
                records = skimmed.records(await self._listening(skimmed.tenants))
                for start in range(0, len(records), _MOST):
                    await self.enqueue(changes_of(records[start : start + _MOST]))
                return bool(records)
            except _INTERRUPTED as error:
                _log.warning("changes_not_matched", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    async def _listening(self, tenants: Iterable[str]) -> set[str]:
        """Those with subscriptions: what is told of the others is not even read."""
        return {tenant for tenant in tenants if is_tenant_name(tenant) and await self._is_listened_to(tenant)}

    async def _is_listened_to(self, tenant_id: str) -> bool:
        """Where that cannot be found out, yes: `enqueue` keeps the trouble of one tenant to itself."""
        try:
            return await self._matcher.listens_to(tenant_id)
        except _INTERRUPTED:
            raise
        except Exception:
            return True

    async def enqueue(self, changes: Sequence[Change]) -> int:
        """Make the notifications and deliveries of these changes; returns how many deliveries were new.

        One change that cannot be told does not keep the others from being told.
        """
        try:
            return await self._enqueue(changes)
        except _INTERRUPTED:
            raise
        except Exception:
            if len(changes) == 1:
                _log.exception("change_not_told", event_id=changes[0].event_id)
                return 0
            return sum([await self.enqueue([change]) for change in changes])

    async def _enqueue(self, changes: Sequence[Change]) -> int:
        matches = await self._matcher.matching(changes)
        named = {
            (match.subscription.tenant_id, match.subscription.target.connector_id)
            for match in matches
            if match.subscription.target
        }
        keeping = {target for target in named if (await self._targets.of(*target)).keeps_groups}
        return await self._queues.tell(matches, lambda fresh: deliveries_of(fresh, keeping))


def changes_of(records: Sequence[ChangeRecord]) -> list[Change]:
    """What the records tell, without what happened so long ago that nobody knows whether it was told."""
    found = (_read(record) for record in records)
    return [change for change in found if change and not _is_forgotten(change)]


def _read(record: ChangeRecord) -> Change | None:
    try:
        data = from_json(record.value)
        return read_change(record.event_type, data)
    except (ValueError, TypeError, AttributeError) as error:
        _log.error(
            "change_unreadable",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            error=str(error),
        )
        return None


def _is_forgotten(change: Change) -> bool:
    """By the time in the event's id: a tenant that moves to another cell has all its changes told again."""
    try:
        event_id = UUID(change.event_id)
    except ValueError:
        return False
    if event_id.version != 7:
        return False
    happened = datetime.fromtimestamp((event_id.int >> 80) / 1000, UTC)
    return happened < datetime.now(UTC) - timedelta(days=KEPT_DAYS - 1)


def deliveries_of(matches: Sequence[Match], keeping: Collection[tuple[str, str]]) -> list[NewDelivery]:
    """In order. A target that keeps groups shows the newest of each anyway: of a storm it gets that one.
    Every step of an incident is told everywhere."""
    others = (match for match in matches if not match.message.incident_id)
    newest = {id(match) for match in newest_of_groups(others)}
    wanted = []
    for match in matches:
        new = delivery_of(match)
        is_shown = match.message.incident_id or id(match) in newest
        if new and (is_shown or (new.tenant_id, new.connector_id) not in keeping):
            wanted.append(new)
    return wanted


def delivery_of(match: Match) -> NewDelivery | None:
    """The delivery of a match; None when its subscription has no target."""
    subscription = match.subscription
    if subscription.target is None:
        return None
    return NewDelivery(
        tenant_id=subscription.tenant_id,
        subscription_id=subscription.subscription_id,
        cause=match.cause_key,
        connector_id=subscription.target.connector_id,
        message=match.message,
        told_at=match.change.applied_at,
        options=subscription.target.options,
    )
