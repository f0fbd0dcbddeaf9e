"""When each request is due: an open-loop schedule, which does not wait for a slow platform.

A request that cannot leave in time is late, and its lateness counts (no coordinated omission).
"""

from __future__ import annotations

from dataclasses import dataclass

_REQUESTS_PER_SECOND = 50
_SINGLE_BELOW = 10
_LARGEST_BATCH = 500


@dataclass(frozen=True)
class Schedule:
    """`rate` events a second for `seconds`, `batch` events to a request."""

    rate: float
    seconds: float
    batch: int

    @classmethod
    def of(cls, rate: float, seconds: float, batch: int = 0) -> Schedule:
        """With the batch size that suits the rate, unless one is given."""
        return cls(rate, seconds, batch or batch_size(rate))

    @property
    def requests(self) -> int:
        return max(1, round(self.rate * self.seconds / self.batch))

    def due(self, number: int) -> float:
        """Seconds after the start at which request `number` is to be sent."""
        return number * self.batch / self.rate


def batch_size(rate: float) -> int:
    """One event to a request when events are rare, else about 50 requests a second."""
    if rate <= _SINGLE_BELOW:
        return 1
    return min(_LARGEST_BATCH, max(1, round(rate / _REQUESTS_PER_SECOND)))
