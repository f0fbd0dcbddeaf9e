"""The routes that have a connector's source read, and tell what became of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict
from pydantic_core import to_json

from lily.access.calls import Call, call_for
from lily.access.decisions import Action
from lily.access.routers import Route, add_routes
from lily.domain.connectors import Connector
from lily.domain.errors import InvalidInput, NotFound
from lily.domain.scraping import Mode
from lily.ingest.scraping.orders import Orders
from lily.ingest.scraping.sources import source_types
from lily.repositories.postgres.connectors import PostgresConnectors
from lily.repositories.postgres.scraping import ScrapingJobs, StoredJob

ONE = "/lily/v1/connectors/{tenant_id}/{connector_id}"
_MOST = 100

ReadingConnectors = Annotated[Call, Depends(call_for(Action.READ, "connector"))]
WritingConnectors = Annotated[Call, Depends(call_for(Action.WRITE, "connector"))]
Which = Annotated[Mode, Query(description="`full` sends everything again, not only what is different.")]


class ScrapingJobDocument(BaseModel):
    """A job: queued, running, succeeded or failed; `error` says what to do, `retry_at` when it goes on."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

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


class ScrapingJobList(BaseModel):
    jobs: list[ScrapingJobDocument]


@dataclass(frozen=True)
class ScrapingRoutes:
    connectors: PostgresConnectors
    orders: Orders
    jobs: ScrapingJobs

    def router(self) -> APIRouter:
        job = ScrapingJobDocument
        return add_routes(
            APIRouter(prefix=ONE, tags=["connectors"]),
            Route("/scrape", "POST", self.scrape, "scrapeConnector", job, status=202),
            Route("/jobs", "GET", self.list, "listScrapingJobs", ScrapingJobList),
            Route("/jobs/{job_id}", "GET", self.get, "getScrapingJob", job),
        )

    async def scrape(
        self, call: WritingConnectors, tenant_id: str, connector_id: UUID, mode: Which = Mode.INCREMENTAL
    ) -> Response:
        """Have the source read now; answers the job, which is on the log then."""
        connector = await self._find(call, tenant_id, connector_id)
        check_scrapable(connector)
        job_id = await self.orders.order(tenant_id, str(connector_id), mode, call.principal.subject)
        call.notebook.write("scrape", ("connector", str(connector_id)), True, f"job {job_id}")
        place = f"{ONE.format(tenant_id=tenant_id, connector_id=connector_id)}/jobs/{job_id}"
        job = await self._job(tenant_id, connector_id, UUID(job_id))
        return Response(to_json(asdict(job)), 202, {"location": place}, "application/json")

    async def list(self, call: ReadingConnectors, tenant_id: str, connector_id: UUID) -> Response:
        """The last hundred jobs of a connector, newest first."""
        await self._find(call, tenant_id, connector_id)
        found = await self.jobs.list(tenant_id, str(connector_id), _MOST)
        return Response(to_json({"jobs": [asdict(job) for job in found]}), media_type="application/json")

    async def get(
        self, call: ReadingConnectors, tenant_id: str, connector_id: UUID, job_id: UUID
    ) -> Response:
        await self._find(call, tenant_id, connector_id)
        job = await self._job(tenant_id, connector_id, job_id)
        return Response(to_json(asdict(job)), media_type="application/json")

    async def _find(self, call: Call, tenant_id: str, connector_id: UUID) -> Connector:
        if tenant_id != call.tenant_id:
            raise NotFound(f"there is no tenant {tenant_id!r} that you belong to")
        found = await self.connectors.find(tenant_id, str(connector_id))
        if found is None:
            raise NotFound(
                f"there is no connector {connector_id}; GET /lily/v1/connectors/<tenant> lists them"
            )
        return found

    async def _job(self, tenant_id: str, connector_id: UUID, job_id: UUID) -> StoredJob:
        job = await self.jobs.find(tenant_id, str(connector_id), str(job_id))
        if job is None:
            raise NotFound(f"there is no job {job_id} of this connector; GET …/jobs lists them")
        return job


def check_scrapable(connector: Connector) -> None:
    """`InvalidInput` unless there is a source that reads this connector, and it is switched on."""
    if connector.type not in source_types():
        known = ", ".join(sorted(source_types()))
        raise InvalidInput(
            f"a connector of the type {connector.type!r} has nothing to scrape; known: {known}"
        )
    if connector.is_disabled:
        raise InvalidInput(f'{connector.name} is switched off; PATCH it with {{"is_disabled": false}} first')
