"""Notes at the edge what no route has noted: strangers, refusals, and whatever was changed.

A route cannot forget the audit: an answer is sent only after this has seen it.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from fastapi import Request
from fastapi.requests import HTTPConnection

from lily.access.audit import INSTALLATION, AuditEntry, AuditTrail
from lily.access.notebooks import Notebook
from lily.access.origins import origin_of
from lily.access.principals import Principal

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
#: Strangers noted per second and process; what is beyond is counted, so that a flood does not fill the disk.
MOST_STRANGERS = 50


class Acts:
    """Of one process."""

    def __init__(self) -> None:
        self._second = 0
        self._strangers = 0

    def note(self, request: Request, status: int) -> None:
        """Record what an answer with this status tells, unless the call has done so."""
        notebook: Notebook | None = getattr(request.state, "notebook", None)
        is_stranger = notebook is None and getattr(request.state, "principal", None) is None
        is_refused = notebook is not None and notebook.has_denial
        if (status == 401 and not is_refused) or (status == 403 and is_stranger):
            self.note_stranger(request)
        elif status in (401, 403):
            self._note_known(request, allowed=False)
        elif status < 400 and request.method not in _SAFE and not getattr(request.state, "only_asks", False):
            self._note_known(request, allowed=True)

    def _note_known(self, request: Request, allowed: bool) -> None:
        notebook: Notebook | None = getattr(request.state, "notebook", None)
        principal: Principal | None = getattr(request.state, "principal", None)
        if notebook is None and principal is not None:
            notebook = Notebook(request.app.state.trail, principal, origin_of(request))
        if notebook is None:
            _record(request, allowed, _reason(request))
        elif not (notebook.has_act if allowed else notebook.has_denial):
            what = ("route", request.url.path)
            notebook.write(request.method.lower(), what, allowed, _reason(request))

    def note_stranger(self, request: HTTPConnection) -> None:
        """Record that somebody unknown was refused; of a flood, how many."""
        second = int(time.monotonic())
        if second != self._second:
            left_out = self._strangers - MOST_STRANGERS
            self._second, self._strangers = second, 0
            if left_out > 0:
                _record(request, False, f"and {left_out} more that were refused within a second before")
        self._strangers += 1
        if self._strangers <= MOST_STRANGERS:
            _record(request, False, _reason(request))


def _reason(request: HTTPConnection) -> str:
    return str(getattr(request.state, "refusal", ""))


def _record(request: HTTPConnection, allowed: bool, reason: str) -> None:
    """An act of somebody without a principal; `claimed` is who they said they were."""
    trail: AuditTrail = request.app.state.trail
    origin = origin_of(request)
    trail.record(
        AuditEntry(
            tenant_id=INSTALLATION,
            actor=str(getattr(request.state, "claimed", "")),
            acting_as="",
            address=origin.address,
            action=str(request.scope.get("method", "connect")).lower(),
            resource_kind="route",
            resource_id=request.url.path,
            allowed=allowed,
            reason=reason,
            trace_id=origin.trace_id,
            at=datetime.now(UTC),
        )
    )
