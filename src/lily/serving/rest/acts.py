"""Notes at the edge what no route has noted: strangers, refusals, and whatever was changed.

A route cannot forget the audit: an answer is sent only after this has seen it.
"""

from __future__ import annotations

from fastapi import Request
from fastapi.requests import HTTPConnection

from lily.access.notebooks import Notebook
from lily.access.origins import origin_of
from lily.access.principals import Principal
from lily.access.strangers import Attempt, Strangers, record

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Acts:
    """Of one process."""

    def __init__(self) -> None:
        self._strangers = Strangers()

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
            record(request.app.state.trail, _attempt(request), allowed)
        elif not (notebook.has_act if allowed else notebook.has_denial):
            what = ("route", request.url.path)
            notebook.write(request.method.lower(), what, allowed, _reason(request))

    def note_stranger(self, request: HTTPConnection) -> None:
        """Record that somebody unknown was refused; of a flood, how many."""
        self._strangers.note(request.app.state.trail, _attempt(request))


def _reason(request: HTTPConnection) -> str:
    return str(getattr(request.state, "refusal", ""))


def _attempt(request: HTTPConnection) -> Attempt:
    claimed, method = (
        str(getattr(request.state, "claimed", "")),
        request.scope.get("method", "connect").lower(),
    )
    return Attempt(origin_of(request), method, request.url.path, _reason(request), claimed)
