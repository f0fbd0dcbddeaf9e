"""Incidents for every interface: those of assets the caller may read, and what they mean for others.

An incident is shown to whom its asset is shown. One that is attached to no asset names things nobody can
judge; only who may read incidents as such sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lily.access.assets import AssetGuard
from lily.access.calls import Call, forbidden
from lily.access.decisions import Action, Decision, Resource
from lily.domain.errors import NotFound
from lily.domain.lineage import Direction
from lily.repositories.postgres.incidents import (
    IncidentFilters,
    IncidentPlace,
    PostgresIncidents,
    StoredIncident,
)
from lily.serving.lineage import Lineage, Walk

KIND = "incident"
#: So many are shown of an asset; the list has them all.
MOST_SHOWN = 100
_MAX_DEPTH = 10_000
#: So many rows are looked through for one page: the next page goes on where this one stopped.
_MOST_LOOKS = 20


@dataclass(frozen=True, slots=True)
class Concern:
    """What concerns an asset: incidents of its own, and of what it comes from."""

    own: Sequence[StoredIncident] = ()
    upstream: Sequence[StoredIncident] = ()


class Incidents:
    def __init__(self, incidents: PostgresIncidents, guard: AssetGuard, lineage: Lineage) -> None:
        self.stored = incidents
        self._guard = guard
        self._lineage = lineage

    async def find(self, call: Call, incident_id: str) -> StoredIncident:
        """The incident, if there is one the caller may see."""
        incident = await self.stored.find(call.tenant_id, incident_id)
        if incident is not None and not await self._visible(call, [incident]):
            call.notebook.write("read", (KIND, incident_id), False, "it is shown to whom its asset is shown")
            incident = None
        if incident is None:
            raise NotFound(f"there is no incident {incident_id!r}; GET /lily/v1/incidents lists them")
        return incident

    async def require_act(self, call: Call, incident_id: str) -> StoredIncident:
        """The incident, when the caller may do something about it: who may change its asset may."""
        incident = await self.find(call, incident_id)
        if incident.asset_id is None:
            await call.require(Action.WRITE, Resource(call.tenant_id, KIND, incident_id))
            return incident
        known = await self._guard.assets.traits(call.tenant_id, [incident.asset_id])
        decision = Decision(False, ("its asset is not there",))
        if incident.asset_id in known:
            decision = await self._guard.decide(call, Action.WRITE, known[incident.asset_id].traits)
        call.notebook.note(Action.WRITE, Resource(call.tenant_id, KIND, incident_id), decision)
        if not decision.allowed:
            raise forbidden(call.principal, Action.WRITE, decision)
        return incident

    async def page(
        self, call: Call, filters: IncidentFilters, after: IncidentPlace | None, size: int
    ) -> tuple[list[StoredIncident], IncidentPlace | None]:
        """The next incidents the caller may see, and where to go on if there may be more."""
        page: list[StoredIncident] = []
        for _ in range(_MOST_LOOKS):
            rows = await self.stored.page(call.tenant_id, filters, after, size + 1)
            for incident in await self._visible(call, rows[:size]):
                page.append(incident)
                if len(page) == size:
                    is_last = incident is rows[-1]
                    return page, None if is_last else IncidentPlace(incident.opened_at, incident.incident_id)
            if len(rows) <= size:
                return page, None
            after = IncidentPlace(rows[size - 1].opened_at, rows[size - 1].incident_id)
        return page, after

    async def concerning(self, call: Call, asset_id: str) -> Concern:
        """What concerns an asset the caller may read."""
        own = await self.stored.open_on(call.tenant_id, [asset_id], MOST_SHOWN)
        return Concern(own, await self._upstream(call, asset_id))

    async def open_on(self, call: Call, asset_ids: Sequence[str]) -> list[StoredIncident]:
        """The open incidents of assets the caller may read."""
        return await self.stored.open_on(call.tenant_id, asset_ids, MOST_SHOWN)

    async def _upstream(self, call: Call, asset_id: str) -> list[StoredIncident]:
        await call.access.refresh(call.tenant_id)
        same = call.access.decide_for_all(call.principal, Action.READ, call.circumstances)
        if same is not None:
            return (
                await self.stored.open_upstream(call.tenant_id, asset_id, MOST_SHOWN) if same.allowed else []
            )
        # Whoever may not read everything follows only what they may read, as lineage shows it.
        walk = Walk(asset_id, Direction.UPSTREAM, _MAX_DEPTH, remove_deleted=True)
        above = [each for each in (await self._lineage.walk(call, walk)).nodes if each != asset_id]
        return await self.stored.open_on(call.tenant_id, above, MOST_SHOWN)

    async def _visible(self, call: Call, incidents: Sequence[StoredIncident]) -> list[StoredIncident]:
        attached = list({incident.asset_id for incident in incidents if incident.asset_id is not None})
        readable = await self._guard.show(call, attached, "incidents") if attached else set()
        sees_others = (await call.decide(Action.READ, Resource(call.tenant_id, KIND))).allowed
        return [
            incident
            for incident in incidents
            if (incident.asset_id in readable if incident.asset_id is not None else sees_others)
        ]
