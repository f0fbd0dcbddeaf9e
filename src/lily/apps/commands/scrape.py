"""`lily connector scrape`: have a connector's source read now."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lily.apps.commands.acts import note
from lily.apps.commands.databases import with_databases
from lily.apps.commands.options import OPERATOR, DataDir, checked_tenant, say
from lily.domain.errors import LilyError, NotFound, Unavailable
from lily.domain.scraping import JobState, Mode

if TYPE_CHECKING:
    from lily.apps.databases import CommandDatabases
    from lily.domain.connectors import Connector
    from lily.repositories.postgres.connectors import PostgresConnectors
    from lily.repositories.postgres.scraping import ScrapingJobs, StoredJob

_LOOK_SECONDS = 0.2


class ScrapeFailed(LilyError):
    """The job did not succeed; its own error says what to do."""

    code = "scrape_failed"


def scrape(
    data_dir: DataDir,
    name: Annotated[str, typer.Argument(help="The connector's name or id.")],
    tenant: Annotated[str, typer.Option(help="The tenant whose connector it is.")],
    full: Annotated[
        bool, typer.Option("--full", help="Send everything, not only what is different.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Return when the job has ended.")] = False,
) -> None:
    """Order a job that reads the source; print the job as JSON, alone on the last line."""
    mode = Mode.FULL if full else Mode.INCREMENTAL
    which = checked_tenant(tenant), name
    job = with_databases(data_dir, lambda opened: _order(opened, which, mode, wait=wait))
    note(data_dir, tenant, "scrape", ("connector", job.connector_id), mode.value)
    print(json.dumps(asdict(job), default=str))
    if wait and job.state != JobState.SUCCEEDED:
        raise ScrapeFailed(f"the job is {job.state}: {job.error}")


async def _order(opened: CommandDatabases, which: tuple[str, str], mode: Mode, *, wait: bool) -> StoredJob:
    from lily.apps.connectors import open_connectors  # slow to import
    from lily.ingest.rest.scraping import check_scrapable
    from lily.ingest.scraping.orders import Orders
    from lily.log.producer import LogProducer
    from lily.repositories.postgres.scraping import ScrapingJobs

    log = LogProducer(opened.settings.kafka)
    log.start()
    try:
        jobs = ScrapingJobs(opened.shared)
        connector = await _find(open_connectors(opened.settings.secrets, opened.shared), *which)
        check_scrapable(connector)
        orders = Orders(log, jobs)
        job_id = await orders.order(connector.tenant_id, connector.connector_id, mode, OPERATOR)
        return await _followed(jobs, connector, job_id, wait=wait)
    finally:
        log.close()


async def _find(connectors: PostgresConnectors, tenant: str, name: str) -> Connector:
    for each in await connectors.list(tenant):
        if name in (each.name, each.connector_id):
            return each
    raise NotFound(f"{tenant} has no connector {name!r}; `lily connector list --tenant {tenant}` shows them")


async def _followed(jobs: ScrapingJobs, connector: Connector, job_id: str, *, wait: bool) -> StoredJob:
    shown = ""
    while True:
        job = await jobs.find(connector.tenant_id, connector.connector_id, job_id)
        if job is None:
            raise Unavailable(
                "the job is on the log and not yet known; `lily status` tells whether all is well"
            )
        if wait and job.error and job.error != shown:
            shown = job.error
            say(f"{job.state}: {job.error}")
        if not wait or job.state in (JobState.SUCCEEDED, JobState.FAILED):
            return job
        await asyncio.sleep(_LOOK_SECONDS)
