"""The scraper process: takes jobs from the log and runs them, and orders what is due. Several may run."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack, suppress
from uuid import uuid4

import psycopg
import structlog

from lily.apps.connectors import open_connectors
from lily.apps.processes import parser_of, run_process
from lily.apps.scraping import open_ways_in
from lily.domain.errors import LilyError
from lily.domain.scraping import REFRESH, ScrapingJob
from lily.ingest.scraping.jobs import JobRunner, Registry
from lily.ingest.scraping.orders import Orders
from lily.ingest.scraping.sources import source_types
from lily.log.jobs import JobFeed
from lily.log.producer import LogProducer
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.scraping import Claim
from lily.settings import SCRAPER_MARKER, Settings
from lily.targets.enforcement.reaching import reach

COMPONENT = "scraper"
#: How often it is looked for jobs that nobody runs, and for sources that were not read for a day.
LOOK_SECONDS = 10.0
_POLL_SECONDS = 2.0
_PAUSE_SECONDS = 1.0
_AT_ONCE = 4

_log = structlog.get_logger(__name__)


class Worker:
    """Runs up to four jobs at once; what it has no hands for is left to the next look, or to others."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._registry = Registry(database, open_connectors(settings.secrets, database))
        self._id = uuid4()
        self._running: set[asyncio.Task[None]] = set()
        self._look_now = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled; jobs that run then are cut off and taken over by another worker."""
        marker = self._settings.data_dir / "run" / SCRAPER_MARKER
        try:
            with JobFeed(self._settings.kafka) as feed:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._follow(feed))
                    group.create_task(self._look_forever())
                    marker.parent.mkdir(exist_ok=True)
                    marker.touch()
        finally:
            marker.unlink(missing_ok=True)
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    async def _follow(self, feed: JobFeed) -> None:
        """Take every job from the log; it is safe in PostgreSQL before the log may forget it."""
        while True:
            try:
                job = await _next(feed)
                if job is None:
                    continue
                await self._registry.jobs.enqueue(job)
                await asyncio.to_thread(feed.done)
                await self._take(job.tenant_id, job.job_id)
            except (LilyError, psycopg.Error) as error:
                _log.warning("jobs_interrupted", error=str(error))
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _look_forever(self) -> None:
        while True:
            try:
                await self._look()
            except (LilyError, psycopg.Error) as error:
                _log.warning("look_failed", error=str(error))
            # Not wait_for, which loses a cancellation that comes with the event.
            waiting = asyncio.create_task(self._look_now.wait())
            await asyncio.wait({waiting}, timeout=LOOK_SECONDS)
            waiting.cancel()
            self._look_now.clear()

    async def _look(self) -> None:
        await self._order_refreshes()
        for tenant_id, job_id in await self._registry.jobs.due():
            await self._take(tenant_id, job_id)

    async def _order_refreshes(self) -> None:
        if not await self._registry.jobs.refreshes(source_types(), REFRESH):
            return
        log = LogProducer(self._settings.kafka)  # for the moment: a producer at rest is not quite at rest
        log.start()
        try:
            await Orders(log, self._registry.jobs).order_refreshes()
        finally:
            await asyncio.to_thread(log.close)

    async def _take(self, tenant_id: str, job_id: str) -> None:
        if len(self._running) >= _AT_ONCE:
            return
        claim = await self._registry.jobs.claim(tenant_id, job_id, self._id)
        if claim is not None:
            task = asyncio.create_task(self._perform(claim))
            self._running.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._look_now.set()

    async def _perform(self, claim: Claim) -> None:
        try:
            async with open_ways_in(self._settings, self._registry.database) as ways_in:
                await JobRunner(self._registry, ways_in, reach).run(claim)
        except (LilyError, psycopg.Error) as error:  # the lease ends, and the job is taken again
            _log.warning("job_cut_off", job=claim.job.job_id, error=str(error))


async def _next(feed: JobFeed) -> ScrapingJob | None:
    """The next job; when cancelled, not before the reader is at rest and may be closed."""
    reading = asyncio.create_task(asyncio.to_thread(feed.next, _POLL_SECONDS))
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        await asyncio.gather(reading, return_exceptions=True)
        raise


async def work(settings: Settings) -> None:
    """Run a worker until SIGTERM."""
    database = Database(settings.database)
    async with AsyncExitStack() as stack:
        await database.open()
        stack.push_async_callback(database.close)
        working = asyncio.create_task(Worker(settings, database).run())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, working.cancel)
        with suppress(asyncio.CancelledError):
            await working


def main() -> None:
    options = parser_of(COMPONENT, __doc__).parse_args()
    run_process(COMPONENT, options.data_dir, lambda settings: asyncio.run(work(settings)))


if __name__ == "__main__":
    main()
