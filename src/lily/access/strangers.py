"""Notes in the audit whoever is refused before anybody knows who they are."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from lily.access.audit import INSTALLATION, AuditEntry, AuditTrail
from lily.access.origins import Origin

#: Noted per second and process; what is beyond is counted, so that a flood does not fill the disk.
MOST_STRANGERS = 50


@dataclass(frozen=True, slots=True)
class Attempt:
    """What somebody without a principal tried; `claimed` is who they said they were."""

    origin: Origin
    action: str
    route: str
    reason: str
    claimed: str = ""


class Strangers:
    """Of one interface of one process."""

    def __init__(self) -> None:
        self._second = 0
        self._strangers = 0

    def note(self, trail: AuditTrail, attempt: Attempt) -> None:
        second = int(time.monotonic())
        if second != self._second:
            left_out = self._strangers - MOST_STRANGERS
            self._second, self._strangers = second, 0
            if left_out > 0:
                reason = f"and {left_out} more that were refused within a second before"
                record(trail, Attempt(attempt.origin, attempt.action, attempt.route, reason))
        self._strangers += 1
        if self._strangers <= MOST_STRANGERS:
            record(trail, attempt)


def record(trail: AuditTrail, attempt: Attempt, allowed: bool = False) -> None:
    """Into the installation's own chain."""
    trail.record(
        AuditEntry(
            tenant_id=INSTALLATION,
            actor=attempt.claimed,
            acting_as="",
            address=attempt.origin.address,
            action=attempt.action,
            resource_kind="route",
            resource_id=attempt.route,
            allowed=allowed,
            reason=attempt.reason,
            trace_id=attempt.origin.trace_id,
            at=datetime.now(UTC),
        )
    )
