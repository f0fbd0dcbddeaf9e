"""Runs one job: reads the connector's source as a principal of its tenant, and tells what became of it."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

import structlog

from lily.access.assets import AssetGuard
from lily.access.audit import AuditTrail
from lily.access.calls import Call
from lily.access.decision_points import Access
from lily.access.notebooks import Notebook
from lily.access.origins import Origin
from lily.access.principals import Principal
from lily.access.requests import Preference
from lily.access.roles import SCRAPER
from lily.domain.conditions import Circumstances
from lily.domain.connectors import Connector
from lily.domain.errors import LilyError, MisconfiguredError, NotFound, Unavailable
from lily.domain.scraping import MAX_ATTEMPTS, RETRY_SECONDS, JobState, Target
from lily.ingest.assertions import Arrival
from lily.ingest.recorder import Recorder
from lily.ingest.scraping.runs import Place, Run
from lily.ingest.scraping.sending import Outbox
from lily.ingest.scraping.sources import open_source
from lily.repositories.postgres.connectors import PostgresConnectors
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.scraping import LEASE_SECONDS, Claim, Ending, ScrapedItems, ScrapingJobs

Reach = Callable[[str, int], str]
_RENEW_SECONDS = LEASE_SECONDS / 3
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Registry:
    """What the shared cell's database knows of connectors and jobs."""

    database: Database
    connectors: PostgresConnectors
    jobs: ScrapingJobs = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "jobs", ScrapingJobs(self.database))


@dataclass(frozen=True)
class WaysIn:
    """What a run sends through: the same parts as the gateway's."""

    recorder: Recorder
    guard: AssetGuard
    access: Access
    trail: AuditTrail


class LeaseLost(LilyError):
    """Another worker has taken the job; this one must stop."""

    code = "lease_lost"


class JobRunner:
    """`reach` judges the addresses sources connect to."""

    def __init__(self, registry: Registry, ways_in: WaysIn, reach: Reach) -> None:
        self._registry = registry
        self._ways_in = ways_in
        self._reach = reach

    async def run(self, claim: Claim) -> None:
        """Return when the job has succeeded, failed, or waits for another attempt."""
        jobs, outbox = self._registry.jobs, None
        try:
            connector = await self._connector(claim)
            outbox = self._outbox(connector, claim.job.job_id)
            async with _renewed(jobs, claim, outbox):
                await self._read(claim, connector, outbox)
            ending = Ending(JobState.SUCCEEDED, +outbox.counts, outbox.notes)
        except LeaseLost:
            _log.warning("job_taken_over", job=claim.job.job_id)
            return
        except LilyError as error:
            ending = _failed(claim, outbox, error.message, is_worth_a_retry=error.retryable)
        except Exception as error:  # of a source, which may be anybody's: it ends this job and no other
            _log.exception("job_failed", job=claim.job.job_id)
            text = f"the source failed: {type(error).__name__}: {error}"[:1000]
            ending = _failed(claim, outbox, f"{text}; see `lily logs scraper`", is_worth_a_retry=False)
        _log.info("job_ended", job=claim.job.job_id, state=ending.state.value, error=ending.error)
        await jobs.finish(claim, ending)

    async def _connector(self, claim: Claim) -> Connector:
        found = await self._registry.connectors.find(claim.job.tenant_id, claim.job.connector_id)
        if found is None:
            raise NotFound("the connector has been removed")
        if found.is_disabled:
            raise MisconfiguredError(f'{found.name} is switched off; PATCH it with {{"is_disabled": false}}')
        return found

    def _outbox(self, connector: Connector, job_id: str) -> Outbox:
        items = ScrapedItems(self._registry.database, connector.tenant_id, connector.connector_id)
        return Outbox(self._ways_in.recorder, self._ways_in.guard, items, self._call(connector, job_id))

    def _call(self, connector: Connector, job_id: str) -> Call:
        """The scraper as the decision point sees it: a member of its group, with the role scraper."""
        principal = Principal(
            connector.tenant_id,
            f"connector:{connector.name}",
            frozenset({SCRAPER}),
            frozenset({_group(connector)}),
            connector_id=connector.connector_id,
        )
        notebook = Notebook(self._ways_in.trail, principal, Origin("", _trace_id(job_id)))
        preference = Preference(respond_async=False, wait_seconds=None)
        circumstances = Circumstances(datetime.now(UTC))
        return Call(
            principal, preference, _traceparent(job_id), self._ways_in.access, circumstances, notebook
        )

    async def _read(self, claim: Claim, connector: Connector, outbox: Outbox) -> None:
        known = await self._registry.connectors.secrets_of(connector)
        target = Target(connector.connector_id, connector.config, known, self._reach)
        place = Place(connector.name, f"connector/{connector.connector_id}", _group(connector))
        arrival = Arrival(
            connector.tenant_id,
            outbox.call.principal.subject,
            f"/lily/v1/connectors/{connector.tenant_id}/{connector.connector_id}",
            outbox.call.traceparent,
            datetime.now(UTC),
        )
        scrape = open_source(connector.type)
        await Run(outbox, place, arrival, claim.job.mode).send(scrape(target))


def _trace_id(job_id: str) -> str:
    """A job is one trace: its id leads from the audit and from any event to the job."""
    return UUID(job_id).hex


def _traceparent(job_id: str) -> str:
    return f"00-{_trace_id(job_id)}-{secrets.token_hex(8)}-00"


def _group(connector: Connector) -> str:
    return str(connector.config.get("scraper_group") or connector.name)


@asynccontextmanager
async def _renewed(jobs: ScrapingJobs, claim: Claim, outbox: Outbox) -> AsyncIterator[None]:
    """Hold the lease while the context is open; `LeaseLost` ends what is done in it."""
    lost = False
    worker = asyncio.current_task()

    async def renew() -> None:
        nonlocal lost
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            with suppress(Unavailable):
                if not await jobs.renew(claim, outbox.counts):
                    lost = True
                    assert worker is not None
                    worker.cancel()
                    return

    renewing = asyncio.create_task(renew())
    try:
        yield
    except asyncio.CancelledError:
        if not lost:
            raise
        raise LeaseLost("another worker has the job") from None
    finally:
        renewing.cancel()


def _failed(claim: Claim, outbox: Outbox | None, error: str, *, is_worth_a_retry: bool) -> Ending:
    counts, notes = (+outbox.counts, outbox.notes) if outbox else (Counter(), [])
    if not is_worth_a_retry or claim.attempt >= MAX_ATTEMPTS:
        return Ending(JobState.FAILED, counts, notes, error)
    pause = RETRY_SECONDS[claim.attempt - 1] * random.uniform(0.8, 1.2)
    return Ending(JobState.QUEUED, counts, notes, error, pause)
