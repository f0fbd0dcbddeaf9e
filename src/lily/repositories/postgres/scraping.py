"""Jobs that read a connector's source, as PostgreSQL keeps them, and what was last sent of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from lily.domain.scraping import JobState, Mode, ScrapingJob
from lily.repositories.postgres.pool import Database, Row
from lily.repositories.postgres.queries import load

_QUERIES = load("scraping.sql")
#: Who did not renew for this long is taken for dead, and its job is another's.
LEASE_SECONDS = 30.0
#: How long the job's event may take to reach a worker before any worker takes the job without it.
PATIENCE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class StoredJob:
    """What became of a job; `retry_at` is when it is tried again."""

    job_id: str
    connector_id: str
    mode: str
    state: str
    requested_by: str
    requested_at: datetime
    attempts: int
    retry_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    counts: dict[str, int]
    notes: list[str]
    error: str | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that this worker runs, for the n-th time."""

    job: ScrapingJob
    attempt: int
    worker: UUID

    def named(self) -> dict[str, Any]:
        return {"tenant_id": self.job.tenant_id, "job_id": self.job.job_id, "worker": self.worker}


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended; a job that is queued again waits `pause` seconds."""

    state: JobState
    counts: Mapping[str, int]
    notes: Sequence[str] = ()
    error: str | None = None
    pause: float = 0.0


class ScrapingJobs:
    """The jobs of all tenants; each question but `due` and `refreshes` names its tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def enqueue(self, job: ScrapingJob) -> bool:
        """Whether it is new; one of a connector that is gone is not taken."""
        values = {
            "tenant_id": job.tenant_id,
            "job_id": job.job_id,
            "connector_id": job.connector_id,
            "mode": job.mode.value,
            "requested_by": job.requested_by,
            "requested_at": job.requested_at,
        }
        return bool(await self._database.fetch(_QUERIES["enqueue_job"], values))

    async def waiting(self, tenant_id: str, connector_id: str, mode: Mode) -> str | None:
        """The job that will do the same and has not begun yet."""
        values = {"tenant_id": tenant_id, "connector_id": connector_id, "mode": mode.value}
        rows = await self._database.fetch(_QUERIES["find_waiting"], values)
        return rows[0][0] if rows else None

    async def claim(self, tenant_id: str, job_id: str, worker: UUID) -> Claim | None:
        """The job, for this worker to run; None when it is done, waits, or somebody else is at it."""
        values = {"tenant_id": tenant_id, "job_id": job_id, "worker": worker, "lease": LEASE_SECONDS}
        try:
            rows = await self._database.fetch(_QUERIES["claim_job"], values)
        except psycopg.errors.UniqueViolation:  # another worker has just begun with the same connector
            return None
        if not rows:
            return None
        tenant_id, job_id, connector_id, mode, requested_by, requested_at, attempt = rows[0]
        job = ScrapingJob(tenant_id, job_id, connector_id, Mode(mode), requested_by, requested_at)
        return Claim(job, attempt, worker)

    async def renew(self, claim: Claim, counts: Mapping[str, int]) -> bool:
        """Whether the job is still this worker's; tells how far it has come."""
        values = claim.named() | {"lease": LEASE_SECONDS, "counts": Jsonb(dict(counts))}
        return bool(await self._database.fetch(_QUERIES["renew_job"], values))

    async def finish(self, claim: Claim, ending: Ending) -> None:
        values = claim.named() | {
            "state": ending.state.value,
            "counts": Jsonb(dict(ending.counts)),
            "notes": Jsonb(list(ending.notes)),
            "error": ending.error,
            "pause": ending.pause,
        }
        await self._database.fetch(_QUERIES["finish_job"], values)
        place = {"tenant_id": claim.job.tenant_id, "connector_id": claim.job.connector_id}
        await self._database.fetch(_QUERIES["forget_jobs"], place)

    async def find(self, tenant_id: str, connector_id: str, job_id: str) -> StoredJob | None:
        found = await self._list(tenant_id, connector_id, job_id, 1)
        return found[0] if found else None

    async def list(self, tenant_id: str, connector_id: str, limit: int) -> Sequence[StoredJob]:
        """The newest first."""
        return await self._list(tenant_id, connector_id, None, limit)

    async def due(self) -> Sequence[tuple[str, str]]:
        """Tenant and id of the jobs that nobody runs although they may."""
        rows = await self._database.fetch(_QUERIES["list_due"], {"patience": PATIENCE_SECONDS})
        return [(tenant_id, job_id) for tenant_id, job_id in rows]

    async def refreshes(self, types: Iterable[str], age: timedelta) -> Sequence[tuple[str, str]]:
        """Tenant and id of the connectors that were not read for this long."""
        values = {"types": sorted(types), "age": age.total_seconds()}
        rows = await self._database.fetch(_QUERIES["list_refreshes"], values)
        return [(tenant_id, connector_id) for tenant_id, connector_id in rows]

    async def _list(
        self, tenant_id: str, connector_id: str, job_id: str | None, limit: int
    ) -> Sequence[StoredJob]:
        values = {"tenant_id": tenant_id, "connector_id": connector_id, "job_id": job_id, "limit": limit}
        rows = await self._database.fetch(_QUERIES["list_jobs"], values)
        return [StoredJob(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class ScrapedItem:
    """What was last sent of an asset, or of where it comes from: a fingerprint, and the edges as JSON."""

    is_lineage: bool
    external_id: str
    asset_type: str
    fingerprint: bytes
    edges: Any = None

    @property
    def key(self) -> tuple[bool, str]:
        return self.is_lineage, self.external_id


class ScrapedItems:
    """What was last sent of one connector's source."""

    def __init__(self, database: Database, tenant_id: str, connector_id: str) -> None:
        self._database = database
        self._place = {"tenant_id": tenant_id, "connector_id": connector_id}

    async def load(self) -> dict[tuple[bool, str], ScrapedItem]:
        rows: list[Row] = await self._database.fetch(_QUERIES["load_items"], self._place)
        return {(row[0], row[1]): ScrapedItem(*row) for row in rows}

    async def keep(self, items: Sequence[ScrapedItem]) -> None:
        values = self._place | {
            "lineage": [item.is_lineage for item in items],
            "ids": [item.external_id for item in items],
            "types": [item.asset_type for item in items],
            "prints": [item.fingerprint for item in items],
            "edges": [None if item.edges is None else Jsonb(item.edges) for item in items],
        }
        await self._database.fetch(_QUERIES["keep_items"], values)

    async def forget(self, items: Sequence[ScrapedItem]) -> None:
        values = self._place | {
            "lineage": [item.is_lineage for item in items],
            "ids": [item.external_id for item in items],
        }
        await self._database.fetch(_QUERIES["forget_items"], values)
