"""Puts drafted events on the log and, when asked to, waits until they are visible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any
from uuid import UUID

from pydantic_core import to_json

from lily.domain.errors import NotVisibleYet, Unavailable
from lily.domain.event_ids import batch_id_from_key, new_batch_id
from lily.ingest.assertions import Arrival, Draft, make_records
from lily.log.envelope import Envelope, EventType
from lily.log.producer import LogProducer
from lily.log.records import record_of
from lily.log.topics import LANE_TOPICS, Topic
from lily.repositories.postgres.idempotency import KeyedRequest
from lily.repositories.postgres.visibility import Refusal, Settlement, Visibility
from lily.telemetry import EVENTS_ACCEPTED
from lily.tenancy.open_cells import OpenCells


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long to wait until the events are visible, and whether not to have seen them is a failure."""

    seconds: float
    must_see: bool


@dataclass(frozen=True, slots=True)
class Submission:
    """Events to record together; `keyed` means that a retry may come."""

    arrival: Arrival
    drafts: Sequence[Draft]
    waiting: Waiting
    keyed: KeyedRequest | None


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that the events are safe, and what came of them when that is known."""

    event_id: UUID
    replayed: bool
    settlement: Settlement | None


class Recorder:
    """The one way onto the log for every way in."""

    def __init__(self, log: LogProducer, cells: OpenCells) -> None:
        self._log = log
        self._cells = cells

    async def record(self, submission: Submission) -> Receipt:
        """Return when the events are on the log, and visible if the submission waits for that."""
        if submission.keyed is None:
            now_ms = int(submission.arrival.time.timestamp() * 1000)
            return await self._append(submission, new_batch_id(now_ms, len(submission.drafts)))
        event_id = keyed_event_id(submission.keyed, len(submission.drafts))
        keys = (await self._cells.of(submission.arrival.tenant_id)).keys
        async with keys.claim(submission.keyed, event_id) as repeated:
            known = await self._known(submission, event_id) if repeated else None
            receipt = known or await self._append(submission, event_id)
        return replace(receipt, replayed=repeated)

    async def request_notification(
        self, arrival: Arrival, keyed: KeyedRequest | None, asset_id: str | None, said: dict[str, Any]
    ) -> UUID:
        """Put on the log that this is to be told; under one key it is told once, however often it is put."""
        now_ms = int(arrival.time.timestamp() * 1000)
        event_id = keyed_event_id(keyed, 1) if keyed else new_batch_id(now_ms)
        routes = self._cells.routes
        tenant = await routes.of(arrival.tenant_id)
        cell = await self._cells.of(tenant.tenant_id)
        routes.quotas.spend(tenant, 1, frees=False)
        told = {
            "tenant_id": arrival.tenant_id,
            "asset_id": asset_id,
            "event_id": str(event_id),
            "event_time": arrival.time,
            "applied_at": arrival.time,
            "actor": arrival.actor,
        } | said
        envelope = Envelope(
            event_id=event_id,
            event_type=EventType.NOTIFICATION_REQUESTED,
            source=arrival.source,
            tenant_id=arrival.tenant_id,
            subject=asset_id or str(event_id),
            time=arrival.time,
            data=to_json(told),
            actor=arrival.actor,
            traceparent=arrival.traceparent,
        )
        with routes.writing(tenant):
            await self._log.append({Topic.NOTIFICATIONS: [record_of(envelope)]}, cell.topic_prefix)
        return event_id

    async def record_once(self, submission: Submission, event_id: UUID) -> Receipt:
        """The same under this id: however often it is recorded, it counts once."""
        return await self._append(submission, event_id)

    async def earlier(self, keyed: KeyedRequest | None) -> Receipt | None:
        """What a single event recorded under this key led to, if it is visible already."""
        if keyed is None:
            return None
        cell = await self._cells.of(keyed.tenant_id)
        if not await cell.keys.is_known(keyed):
            return None
        event_id = keyed_event_id(keyed, 1)
        settlement = await cell.visibility.settled(keyed.tenant_id, event_id)
        return Receipt(event_id, True, settlement) if settlement else None

    async def refusals(self, tenant_id: str, receipt: Receipt) -> list[Refusal]:
        """The events of a waited-for batch that became dead letters."""
        if receipt.settlement is None or not receipt.settlement.dead:
            return []
        return await (await self._cells.of(tenant_id)).visibility.refusals(tenant_id, receipt.event_id)

    async def _known(self, submission: Submission, event_id: UUID) -> Receipt | None:
        tenant_id = submission.arrival.tenant_id
        settlement = await (await self._cells.of(tenant_id)).visibility.settled(tenant_id, event_id)
        return Receipt(event_id, True, settlement) if settlement else None

    async def _append(self, submission: Submission, event_id: UUID) -> Receipt:
        routes, drafts = self._cells.routes, submission.drafts
        tenant = await routes.of(submission.arrival.tenant_id)
        cell = await self._cells.of(tenant.tenant_id)
        frees = all(draft.event_type is EventType.ASSET_PURGED for draft in drafts)
        routes.quotas.spend(tenant, len(drafts), frees=frees)
        with routes.writing(tenant):
            records = make_records(event_id, drafts, submission.arrival)
            await self._log.append(records, cell.topic_prefix)
        for lane, topic in LANE_TOPICS.items():
            if topic in records:
                EVENTS_ACCEPTED.labels(lane.value).inc(len(records[topic]))
        return Receipt(event_id, False, await self._wait(submission, event_id, cell.visibility))

    async def _wait(
        self, submission: Submission, event_id: UUID, visibility: Visibility
    ) -> Settlement | None:
        waiting = submission.waiting
        if waiting.seconds == 0 and not waiting.must_see:
            return None
        try:
            return await visibility.wait(submission.arrival.tenant_id, event_id, waiting.seconds)
        except NotVisibleYet:
            if not waiting.must_see:
                return None
            raise NotVisibleYet(
                f"accepted and safe, but not visible within {waiting.seconds:g} s; "
                f"read with Lily-After: {event_id}",
                event_id=str(event_id),
            ) from None


def accepted_but_unseen(event_id: UUID, error: Unavailable) -> NotVisibleYet:
    """What to answer when the event is safe and only its effect cannot be read."""
    return NotVisibleYet(
        f"the event is accepted and safe, but its effect cannot be read now: {error.message}",
        event_id=str(event_id),
    )


def keyed_event_id(keyed: KeyedRequest, size: int) -> UUID:
    """The id of the events of a keyed request: the same for every retry."""
    # The payload is part of the id: a key used anew after it was forgotten must not be mistaken for a retry.
    key = f"{keyed.key}\x1f{keyed.request_hash.hex()}"
    return batch_id_from_key(f"{keyed.tenant_id}/{keyed.actor}", key, size)


def request_hash(method: str, path: str, body: bytes) -> bytes:
    """Tells one request from another under the same idempotency key."""
    return sha256(b"\n".join((method.encode(), path.encode(), body))).digest()
