"""Incidents as PostgreSQL has them: one by one, in pages, and those that concern an asset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load

_QUERIES = load("incidents.sql")
MOST_STEPS = 1000


@dataclass(frozen=True, slots=True)
class StoredIncident:
    """An incident; `document` is JSON already."""

    incident_id: str
    asset_id: str | None
    status: str
    opened_at: datetime
    document: str


@dataclass(frozen=True, slots=True)
class StoredStep:
    """One entry of the timeline."""

    event_id: str
    event_time: datetime
    applied_at: datetime
    actor: str
    step: str
    said: dict[str, Any]
    comment: str | None


@dataclass(frozen=True, slots=True)
class IncidentFilters:
    """What None leaves open; `unresolved` is every status but resolved."""

    status: str | None = None
    unresolved: bool = False
    severity: str | None = None
    owner: str | None = None
    source: str | None = None
    asset_ids: Sequence[str] | None = None
    is_attached: bool | None = None


@dataclass(frozen=True, slots=True)
class IncidentPlace:
    """Where a page ended."""

    opened_at: datetime
    incident_id: str


class PostgresIncidents:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, tenant_id: str, incident_id: str) -> StoredIncident | None:
        found = await self._fetch("find_incident", tenant_id, incident_id=incident_id)
        return found[0] if found else None

    async def page(
        self, tenant_id: str, filters: IncidentFilters, after: IncidentPlace | None, limit: int
    ) -> list[StoredIncident]:
        """Newest first."""
        asked = asdict(filters) | {
            "asset_ids": None if filters.asset_ids is None else list(filters.asset_ids),
            "before": after.opened_at if after else None,
            "before_id": after.incident_id if after else None,
        }
        return await self._fetch("list_incidents", tenant_id, **asked, limit=limit)

    async def timeline(self, tenant_id: str, incident_id: str) -> list[StoredStep]:
        """The last thousand steps, oldest first."""
        asked = {"tenant_id": tenant_id, "incident_id": incident_id, "limit": MOST_STEPS}
        rows = await self._database.fetch(_QUERIES["list_steps"], asked)
        return [StoredStep(*row) for row in reversed(rows)]

    async def open_on(self, tenant_id: str, asset_ids: Sequence[str], limit: int) -> list[StoredIncident]:
        """The gravest open incidents of these assets."""
        return await self._fetch("open_on", tenant_id, asset_ids=list(asset_ids), limit=limit)

    async def open_upstream(self, tenant_id: str, asset_id: str, limit: int) -> list[StoredIncident]:
        """The gravest open incidents of everything this asset comes from."""
        return await self._fetch("open_upstream", tenant_id, asset_id=asset_id, limit=limit)

    async def _fetch(self, query: str, tenant_id: str, **asked: Any) -> list[StoredIncident]:
        rows = await self._database.fetch(_QUERIES[query], {"tenant_id": tenant_id} | asked)
        return [StoredIncident(*row) for row in rows]
