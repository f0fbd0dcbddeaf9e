"""How far incidents reach: the assets downstream of theirs, counted as far as each owner may see them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from lily.access.principals import Principal
from lily.repositories.postgres.lineage import Hop, PostgresLineage
from lily.targets.sights import Sights

#: A walk ends when it has found so many edges: what lies beyond is "and more".
MOST_EDGES = 2_000


class BlastRadius:
    """Of the incidents of one batch of changes, walked once for all of them."""

    def __init__(self) -> None:
        self._downstream: dict[str, list[str]] = defaultdict(list)
        self._is_partial = False

    async def walk(self, lineage: PostgresLineage, tenant_id: str, starts: Iterable[str]) -> set[str]:
        """Walk downstream from all of them at once, one question per hop; the assets on the way."""
        found = set(starts)
        frontier, edges = sorted(found), 0
        while frontier and not self._is_partial:
            step = await lineage.step(tenant_id, Hop(frontier, upstream=False, most=MOST_EDGES - edges + 1))
            edges += len(step)
            self._is_partial = edges > MOST_EDGES
            for edge in step:
                self._downstream[edge.from_id].append(edge.to_id)
            frontier = sorted({edge.to_id for edge in step} - found)
            found.update(frontier)
        return found

    def told(self, who: Principal, start: str, seen: Sights) -> str:
        """How many there are, in words; over what is there and this principal may read."""
        reached, pending = {start}, [start]
        while pending:
            for below in self._downstream.get(pending.pop(), ()):
                if below not in reached and below in seen.assets and seen.may_read(who, below):
                    reached.add(below)
                    pending.append(below)
        count = len(reached) - 1
        if not count:
            return ""
        return f"{count:,}{' or more' if self._is_partial else ''} downstream"
