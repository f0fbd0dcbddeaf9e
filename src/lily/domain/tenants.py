"""What a tenant is: where it lives, what it may use; and the bucket that measures it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

SHARED = "shared"
#: What a tenant can be called, as a regular expression; an event of any other ends as a dead letter.
TENANT_NAME = r"[A-Za-z0-9_.-]{1,63}"
_NAME = re.compile(TENANT_NAME)


def is_tenant_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


class State(StrEnum):
    ACTIVE = "active"
    MOVING = "moving"  # between cells: reads are served, writes are asked to come back
    DELETING = "deleting"


@dataclass(frozen=True, slots=True)
class Cell:
    """A dedicated cell: what is a tenant's own there."""

    name: str
    database: str
    topic_prefix: str
    lake_namespace: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What a tenant may use; None is the default, 0 is without limit."""

    requests_per_second: int | None = None
    events_per_second: int | None = None
    max_assets: int | None = None
    max_bytes: int | None = None

    def or_default(self, default: Limits) -> Limits:
        return Limits(
            default.requests_per_second if self.requests_per_second is None else self.requests_per_second,
            default.events_per_second if self.events_per_second is None else self.events_per_second,
            default.max_assets if self.max_assets is None else self.max_assets,
            default.max_bytes if self.max_bytes is None else self.max_bytes,
        )


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a tenant's quotas that one process may grant."""

    requests: float = 1.0
    events: float = 1.0


class Bucket:
    """A token bucket that holds one second's worth: what is asked may run into debt once, and then waits.

    A rate of 0 is without limit. Time is the caller's, in seconds that never go back.
    """

    __slots__ = ("_at", "_rate", "_tokens", "asked")

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._tokens = rate
        self._at = now
        self.asked = 0.0

    @property
    def rate(self) -> float:
        return self._rate

    def set_rate(self, rate: float, now: float) -> None:
        if rate != self._rate:
            self._refill(now)
            # What was without limit had no debt and no savings.
            self._tokens = min(self._tokens, rate) if self._rate else rate
            self._rate = rate

    def take(self, amount: float, now: float) -> float:
        """0 when taken; else the seconds until something can be taken, and nothing was."""
        self.asked += amount
        if not self._rate:
            return 0.0
        self._refill(now)
        if self._tokens <= 0:
            return -self._tokens / self._rate + 1 / self._rate
        self._tokens -= amount
        return 0.0

    def wait(self, now: float) -> float:
        """The seconds until something can be taken."""
        self._refill(now)
        return 0.0 if not self._rate or self._tokens > 0 else (1 - self._tokens) / self._rate

    def left(self, now: float) -> float:
        self._refill(now)
        return max(0.0, self._tokens)

    def _refill(self, now: float) -> None:
        self._tokens = min(self._rate, self._tokens + (now - self._at) * self._rate)
        self._at = now
