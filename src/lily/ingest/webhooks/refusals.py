"""Who was refused lately: every guess costs a hash of a whole body for each connector it may be of."""

from __future__ import annotations

import time

from lily.domain.errors import TooManyRequests

#: So many refusals a minute and process, then nothing is looked at any more until the minute is over.
MOST_REFUSED = 30
_SECONDS = 60
_MOST_KNOWN = 10_000

#: From where, and for whom it claims to speak: one sender serves many tenants, and the one tenant whose
#: secret is wrong must not shut out the others.
Claim = tuple[str, str]


class Refusals:
    """Of one process."""

    def __init__(self) -> None:
        self._minute = 0
        self._counts: dict[Claim, int] = {}

    def check(self, claim: Claim) -> None:
        """`TooManyRequests` for who was refused too often in this minute."""
        now = time.monotonic()
        if int(now / _SECONDS) != self._minute:
            self._minute = int(now / _SECONDS)
            self._counts.clear()
        if self._counts.get(claim, 0) >= MOST_REFUSED:
            raise TooManyRequests(
                "too many deliveries from here with a wrong signature; check the secret, then come back",
                retry_after=int(_SECONDS - now % _SECONDS) + 1,
            )

    def note(self, claim: Claim) -> None:
        if len(self._counts) < _MOST_KNOWN or claim in self._counts:
            self._counts[claim] = self._counts.get(claim, 0) + 1
