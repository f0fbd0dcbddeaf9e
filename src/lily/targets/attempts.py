"""One attempt to send a message, and what follows from it for the message, its queue and its target."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Protocol

import structlog

from lily.domain.deliveries import (
    MOST_DEAD,
    MOST_HELD,
    MOST_PUT_OFF,
    Outcome,
    QueueName,
    Receipt,
    Shipment,
    Status,
    pause_after,
)
from lily.repositories.postgres.deliveries import DeliveryQueues
from lily.targets.frame import Target
from lily.telemetry import DELIVERIES, DELIVERY_SECONDS

#: A target that took this long to take nothing is slow.
_SLOW_SECONDS = 5.0
_LEAST_PUT_OFF = 0.3

_log = structlog.get_logger(__name__)


class Switch(Protocol):
    """Switches a connector off that wants or takes nothing any more, and tells whom it concerns."""

    async def __call__(self, tenant_id: str, connector_id: str, why: str) -> None: ...


class Then(Enum):
    """What is to be done with a queue after an attempt."""

    NEXT = auto()
    NOTHING = auto()
    LATER = auto()


@dataclass(frozen=True)
class _Attempt:
    shipment: Shipment
    receipt: Receipt
    seconds: float


class Attempts:
    """`slow`: the targets (tenant and connector) that hang; `recovered` is called when one no longer does."""

    def __init__(self, queues: DeliveryQueues, switch_off: Switch, recovered: Callable[[], None]) -> None:
        self._queues = queues
        self._switch_off = switch_off
        self._recovered = recovered
        self.slow: set[tuple[str, str]] = set()

    async def make(self, target: Target, shipment: Shipment) -> Then:
        """Send it, and write down what came of it."""
        return await self._conclude(await _attempt(target, shipment))

    async def _conclude(self, attempt: _Attempt) -> Then:
        shipment, receipt = attempt.shipment, attempt.receipt
        self._judge_speed(attempt)
        DELIVERIES.labels(receipt.outcome.value).inc()
        if receipt.outcome is Outcome.DELIVERED:
            finished = await self._queues.finish(shipment, receipt, Status.DELIVERED, attempt.seconds)
            DELIVERY_SECONDS.observe((datetime.now(UTC) - shipment.told_at).total_seconds())
            return Then.NEXT if finished.left else Then.NOTHING
        if receipt.outcome is Outcome.FAILED:
            if receipt.is_throttled and _age(shipment) < MOST_PUT_OFF:
                await self._put_off(shipment, receipt)
                return Then.LATER
            pause = pause_after(shipment.failures + 1, random.random(), receipt.retry_after)
            if pause is not None:
                await self._queues.postpone(shipment, receipt, attempt.seconds, pause)
                return Then.LATER
        return await self._give_up(attempt)

    async def _give_up(self, attempt: _Attempt) -> Then:
        shipment, receipt = attempt.shipment, attempt.receipt
        if receipt.outcome is Outcome.GONE:
            await self._end(shipment.queue, "it wants nothing any more", receipt)
        finished = await self._queues.finish(shipment, receipt, Status.DEAD, attempt.seconds)
        if finished.dead_in_row >= MOST_DEAD:
            await self._end(
                shipment.queue, f"it took none of {finished.dead_in_row} messages in a row", receipt
            )
        _log.warning(
            "delivery_dead",
            tenant=shipment.queue.tenant_id,
            delivery=str(shipment.delivery_id),
            reason=receipt.detail,
        )
        return Then.NEXT if finished.left else Then.NOTHING

    async def _end(self, name: QueueName, why: str, receipt: Receipt) -> None:
        await self._switch_off(name.tenant_id, name.connector_id, f"{why} ({receipt.detail[:500]})")

    def _judge_speed(self, attempt: _Attempt) -> None:
        target = (attempt.shipment.queue.tenant_id, attempt.shipment.queue.connector_id)
        if attempt.receipt.outcome is Outcome.DELIVERED or attempt.seconds < _SLOW_SECONDS:
            if target in self.slow:
                self.slow.discard(target)
                self._recovered()
        else:
            self.slow.add(target)

    async def _put_off(self, shipment: Shipment, receipt: Receipt) -> None:
        """The whole target is left alone for as long as it asked for."""
        pause = min(max(receipt.retry_after or 0.0, _LEAST_PUT_OFF), MOST_HELD)
        await self._queues.hold_target(shipment.queue, pause)
        await self._queues.step_back(shipment, pause)


async def _attempt(target: Target, shipment: Shipment) -> _Attempt:
    began = time.monotonic()
    try:
        receipt = await target.send(shipment)
    except Exception as error:  # whatever a target's code does wrong is this message's trouble only
        _log.exception("target_failed", delivery=str(shipment.delivery_id))
        receipt = Receipt(Outcome.FAILED, "", detail=f"the target's code failed: {error!r}", is_certain=False)
    return _Attempt(shipment, receipt, time.monotonic() - began)


def _age(shipment: Shipment) -> float:
    return (datetime.now(UTC) - shipment.first_attempt).total_seconds()
