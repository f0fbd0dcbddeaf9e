"""Orders jobs: on demand, and for every source that was not read for a day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4, uuid5

from lily.domain.scraping import REFRESH, Mode, ScrapingJob
from lily.ingest.scraping.sources import source_types
from lily.log.jobs import job_record
from lily.log.producer import LogProducer
from lily.log.topics import Topic
from lily.repositories.postgres.scraping import ScrapingJobs

SCHEDULER = "scheduler"
_NAMESPACE = UUID("0e7d3f0c-6a53-5b8b-8a0e-9d1f0a4b7c55")


class Orders:
    """A job is on the log before it is shown."""

    def __init__(self, log: LogProducer, jobs: ScrapingJobs) -> None:
        self._log = log
        self._jobs = jobs

    async def order(self, tenant_id: str, connector_id: str, mode: Mode, by: str) -> str:
        """The id of the job: a new one, or one that will do the same and has not begun yet."""
        waiting = await self._jobs.waiting(tenant_id, connector_id, mode)
        if waiting is not None:
            return waiting
        job = ScrapingJob(tenant_id, str(uuid4()), connector_id, mode, by, datetime.now(UTC))
        await self._append(job)
        await self._jobs.enqueue(job)
        return job.job_id

    async def order_refreshes(self, age: timedelta = REFRESH) -> int:
        """Order every refresh that is due; of several schedulers one orders it. Returns how many."""
        now, ordered = datetime.now(UTC), 0
        for tenant_id, connector_id in await self._jobs.refreshes(source_types(), age):
            job_id = uuid5(_NAMESPACE, f"{connector_id}/{int(now.timestamp()) // 60}")
            job = ScrapingJob(tenant_id, str(job_id), connector_id, Mode.INCREMENTAL, SCHEDULER, now)
            if await self._jobs.enqueue(job):
                await self._append(job)
                ordered += 1
        return ordered

    async def _append(self, job: ScrapingJob) -> None:
        await self._log.append({Topic.SCRAPING_JOBS: [job_record(job)]})
