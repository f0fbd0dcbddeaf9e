"""What delivering means: which message it is, when it is tried again, and what can come of an attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid5

from lily.domain.messages import Message

_IDS = UUID("6f0d1c0e-5d0b-4c55-9a53-6b8f2b8a4a11")
_MINUTE, _HOUR = 60.0, 3600.0
#: The pauses after each failed attempt; after the last of them and one more failure the message is dead.
PAUSES = (
    5.0,
    5 * _MINUTE,
    30 * _MINUTE,
    2 * _HOUR,
    5 * _HOUR,
    10 * _HOUR,
    14 * _HOUR,
    20 * _HOUR,
    24 * _HOUR,
)
#: A pause is longer or shorter by at most this part of it: those who failed together do not return together.
JITTER = 0.2
#: A message its target only ever puts off is dead after this time: as long as all the pauses together.
MOST_PUT_OFF = sum(PAUSES)
#: A target that asks for more time than this is asked again after this time.
MOST_HELD = 24 * _HOUR
#: A target that took none of so many messages in a row, each tried to the end, is switched off.
MOST_DEAD = 10
#: Finished deliveries are known for this long; what happened earlier is not told any more.
KEPT_DAYS = 30


class Status(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


class Outcome(StrEnum):
    """What came of an attempt."""

    DELIVERED = "delivered"
    FAILED = "failed"  # to be tried again
    REFUSED = "refused"  # never to be taken, however often it is sent
    GONE = "gone"  # the target wants nothing any more


@dataclass(frozen=True, slots=True)
class QueueName:
    """What is sent one after the other: everything about one asset to one target."""

    tenant_id: str
    connector_id: str
    queue: str


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """One message to be delivered; subscription and cause make it that one, however often it is asked for."""

    tenant_id: str
    subscription_id: str
    cause: str
    connector_id: str
    message: Message
    told_at: datetime
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def delivery_id(self) -> UUID:
        return delivery_id(self.tenant_id, self.subscription_id, self.cause)

    @property
    def queue(self) -> str:
        """The asset, or the group for what is about none: order is kept within it."""
        message = self.message
        return f"asset:{message.asset_id}" if message.asset_id else f"group:{message.group_key}"


@dataclass(frozen=True, slots=True)
class Shipment:
    """One attempt to deliver a message.

    `is_uncertain`: an earlier attempt may have arrived, and where the target can tell, it is asked. `place`
    is where the target showed the group's earlier messages.
    """

    queue: QueueName
    delivery_id: UUID
    subscription_id: str
    options: Mapping[str, Any]
    message: Message
    told_at: datetime
    attempt: int
    failures: int
    is_uncertain: bool
    first_attempt: datetime
    place: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What came of an attempt: the target's answer and what it was told.

    `is_certain` is false when it may have arrived all the same. `retry_after` is what the target asked for,
    in seconds. `place` is where later messages of the group go.
    """

    outcome: Outcome
    rendered: str
    status: int | None = None
    detail: str = ""
    is_certain: bool = True
    retry_after: float | None = None
    place: Mapping[str, Any] | None = None

    @property
    def blames_target(self) -> bool:
        """The target failed, or said no; not so what could not be sent at all."""
        return self.outcome is Outcome.FAILED or (
            self.outcome is not Outcome.DELIVERED and self.status is not None
        )

    @property
    def is_throttled(self) -> bool:
        """The target is well but wants to be asked later: no failure."""
        return self.outcome is Outcome.FAILED and self.status in (429, 503) and self.retry_after is not None


def delivery_id(tenant_id: str, subscription_id: str, cause: str) -> UUID:
    """The message's id at the target: the same on every attempt, by whoever makes it."""
    parts = (tenant_id, subscription_id, cause)
    return uuid5(_IDS, "".join(f"{len(part)}:{part}" for part in parts))


def pause_after(failures: int, chance: float, retry_after: float | None = None) -> float | None:
    """The seconds until the next attempt after so many failures, or None when there is none any more.

    `chance` is a random number from 0 to 1. What the target asked for is the least.
    """
    if failures > len(PAUSES):
        return None
    pause = PAUSES[failures - 1] * (1 + JITTER * (2 * chance - 1))
    return pause if retry_after is None else max(pause, min(retry_after, MOST_HELD))
