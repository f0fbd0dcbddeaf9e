"""What lineage reaches from what, for a batch of changes: walked once for all, seen by each owner alone."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Protocol

import structlog

from lily.access.principals import Principal
from lily.domain.changes import Change
from lily.repositories.postgres.lineage import Hop, PostgresLineage
from lily.targets.subscribers import Subscriber

#: A walk that finds more ends there, and what lies beyond is not told.
MAX_EDGES = 100_000

_log = structlog.get_logger(__name__)
_Told = tuple[Subscriber, Change]


class Sight(Protocol):
    """Who may see which assets."""

    def may_read(self, who: Principal, asset_id: str) -> bool: ...


class Reaches:
    """Only over what the owner may read: no notification shows a way that lineage itself would hide."""

    def __init__(self, seen: Sight) -> None:
        self._seen = seen
        self._upstream: dict[str, list[str]] = defaultdict(list)
        self._paths: dict[tuple[Principal, str, frozenset[str]], tuple[str, ...] | None] = {}

    def starts(self, told: Iterable[_Told]) -> set[str]:
        """From where to walk upstream, so that everything asked can be answered."""
        starts: set[str] = set()
        for each, change in told:
            selection = each.subscription.selection
            if change.subject and selection.downstream_of:
                starts.add(change.subject)
            if change.subject:
                starts |= selection.upstream_of
        return starts

    async def walk(self, lineage: PostgresLineage, tenant_id: str, starts: Iterable[str]) -> set[str]:
        """Walk upstream from all of them at once, one question per hop; the assets on the way."""
        found = set(starts)
        frontier, edges = sorted(found), 0
        while frontier:
            step = await lineage.step(tenant_id, Hop(frontier, upstream=True, most=MAX_EDGES - edges + 1))
            edges += len(step)
            if edges > MAX_EDGES:
                _log.warning("lineage_too_wide_to_follow", tenant_id=tenant_id, edges=edges)
                break
            for edge in step:
                self._upstream[edge.to_id].append(edge.from_id)
            frontier = sorted({edge.from_id for edge in step} - found)
            found.update(frontier)
        return found

    def path(self, subscriber: Subscriber, change: Change) -> tuple[str, ...] | None:
        """How lineage leads to or from the asset, upstream end first; None when it does not.

        Empty when the subscription does not ask, or asks for the change by name.
        """
        selection, subject = subscriber.subscription.selection, change.subject
        if not selection.follows_lineage or change.data.get("subscription_id"):
            return ()
        if subject is None:
            return None
        who = subscriber.principal
        found: tuple[str, ...] | None = ()
        if selection.downstream_of:
            found = self._up(who, subject, selection.downstream_of)
        if found is not None and selection.upstream_of:
            below = self._first(who, subject, sorted(selection.upstream_of))
            found = None if below is None else (*found, *(below[1:] if found else below))
        return found

    def _first(self, who: Principal, subject: str, starts: Sequence[str]) -> tuple[str, ...] | None:
        goal = frozenset({subject})
        return next((path for start in starts if (path := self._up(who, start, goal))), None)

    def _up(self, who: Principal, start: str, goals: frozenset[str]) -> tuple[str, ...] | None:
        key = (who, start, goals)
        if key not in self._paths:
            self._paths[key] = self._search(who, start, goals)
        return self._paths[key]

    def _search(self, who: Principal, start: str, goals: frozenset[str]) -> tuple[str, ...] | None:
        """A shortest path upstream to one of the goals, over assets this principal may read."""
        if not self._seen.may_read(who, start):
            return None
        below: dict[str, str | None] = {start: None}
        queue = deque([start])
        while queue:
            at = queue.popleft()
            if at in goals:
                return _back(below, at)
            for above in sorted(self._upstream.get(at, ())):
                if above not in below and self._seen.may_read(who, above):
                    below[above] = at
                    queue.append(above)
        return None


def _back(below: dict[str, str | None], at: str) -> tuple[str, ...]:
    path: list[str] = []
    step: str | None = at
    while step is not None:
        path.append(step)
        step = below[step]
    return tuple(path)
