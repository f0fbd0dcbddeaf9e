"""The tenants: where each lives, what it may use, and what it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from lily.domain.errors import VersionConflict
from lily.domain.tenants import Cell, Limits, Share, State
from lily.repositories.postgres.pool import Database, Row
from lily.repositories.postgres.queries import load

CHANNEL = "lily_tenants"
_QUERIES = load("tenants.sql")


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant as the shared cell's database knows it; a limit that is None is the installation's default."""

    tenant_id: str
    cell: str
    state: State
    limits: Limits
    assets: int
    bytes: int
    settings: dict[str, Any]
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Source:
    """What a tenant has from one data source, as last counted; '' are assets of no source."""

    data_source: str
    assets: int
    bytes: int
    last_event: datetime
    counted_at: datetime


class Tenants:
    """The shared cell's table of tenants; each question names the tenant it is asked for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_or_make(self, tenant_id: str) -> Tenant:
        """The tenant; one that was never heard of comes into being in the shared cell."""
        named = {"tenant_id": tenant_id}
        rows = await self._database.fetch(_QUERIES["find_tenant"], named)
        if not rows:
            await self._database.fetch(_QUERIES["make_tenant"], named)
            rows = await self._database.fetch(_QUERIES["find_tenant"], named)
        return tenant_of(rows[0])

    async def put_settings(self, tenant_id: str, settings: Mapping[str, Any], version: int | None) -> int:
        """Replace the tenant's own settings; `VersionConflict` when they are not at the expected version."""
        rows = await self._database.fetch(
            _QUERIES["put_settings"],
            {"tenant_id": tenant_id, "settings": Jsonb(settings), "version": version},
        )
        if not rows:
            raise VersionConflict("the configuration changed meanwhile; read it again, then decide")
        return int(rows[0][0])

    async def find_cell(self, name: str) -> Cell | None:
        rows = await self._database.fetch(_QUERIES["find_cell"], {"cell": name})
        return Cell(*rows[0]) if rows else None

    async def beat(
        self, worker: UUID, paused: Sequence[str], asked: Mapping[str, tuple[float, float]]
    ) -> dict[str, Share]:
        """Tell that this worker lives, what it paused and how much was asked; answers its share per tenant.

        The share under '' is that of a tenant that asks for little.
        """
        told = {
            "worker": worker,
            "paused": list(paused),
            "tenants": list(asked),
            "requests": [requests for requests, _ in asked.values()],
            "events": [events for _, events in asked.values()],
        }
        rows = await self._database.fetch(_QUERIES["beat"], told)
        return {tenant: Share(requests, events) for tenant, requests, events in rows}


class TenantSources:
    """What tenants have, counted in the database of their cell."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, tenant_id: str) -> list[Source]:
        """The largest sources first."""
        rows = await self._database.fetch(_QUERIES["list_sources"], {"tenant_id": tenant_id})
        return [Source(*row) for row in rows]


def tenant_of(row: Row) -> Tenant:
    tenant_id, cell, state, requests, events, most_assets, most_bytes, *rest = row
    return Tenant(tenant_id, cell, State(state), Limits(requests, events, most_assets, most_bytes), *rest)
