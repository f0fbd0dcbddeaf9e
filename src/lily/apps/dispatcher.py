"""The dispatcher process: what changed is matched with subscriptions and told to targets, and enforced.

Several may run: they share the changes as a consumer group, and the deliveries by holding their queues.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import AsyncExitStack, closing, suppress
from typing import Any

import structlog

from lily.access.audit import AuditTrail
from lily.access.decision_points import Access
from lily.access.live_books import LiveBooks
from lily.apps.connectors import open_connectors
from lily.apps.enforcement import EnforcementParts
from lily.apps.processes import parser_of, run_process
from lily.log.changes import DISPATCHERS, ChangeFeed
from lily.log.topics import Topic
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.assets import PostgresAssets
from lily.repositories.postgres.deliveries import DeliveryQueues
from lily.repositories.postgres.lineage import PostgresLineage
from lily.repositories.postgres.policies import PostgresPolicies
from lily.repositories.postgres.pool import Database, TenantDatabase
from lily.repositories.postgres.subscriptions import PostgresSubscriptions
from lily.repositories.postgres.tenants import Tenants
from lily.settings import DISPATCHER_MARKER, Settings
from lily.targets.delivering import Deliverer
from lily.targets.egress import AllowList, Egress
from lily.targets.frame import target_types
from lily.targets.matching import Subscriptions
from lily.targets.opened import OpenTargets
from lily.targets.outgoing import Outgoing
from lily.targets.subscribers import LiveSubscribers
from lily.targets.switching import SwitchOff
from lily.targets.telling import Telling
from lily.tenancy.homes import Homes

COMPONENT = "dispatcher"
_TOPICS = (Topic.METADATA_CHANGES, Topic.NOTIFICATIONS)

_log = structlog.get_logger(__name__)


async def run(settings: Settings) -> None:
    """Run until a signal asks to stop."""
    database = Database(settings.database.model_copy(update={"pool_size": 4}))
    homes = Homes(settings, Tenants(database), database)
    home = TenantDatabase(database, homes.database_of)
    announcements = Announcements(database)
    connectors = open_connectors(settings.secrets, database)
    subscriptions = Subscriptions(
        LiveSubscribers(announcements, PostgresSubscriptions(database)),
        PostgresAssets(home),
        PostgresLineage(home),
        Access(LiveBooks(announcements, PostgresPolicies(database))),
        settings.auth.public_url.rstrip("/"),
    )
    url, key = settings.database.url.get_secret_value(), settings.audit.key.get_secret_value()
    queues = DeliveryQueues(url)
    targets = OpenTargets(connectors, target_types(), Egress(AllowList(settings.targets.allow)))
    trail = AuditTrail(url, key, settings.data_dir / "audit")

    async with AsyncExitStack() as stack:
        await database.open()
        stack.push_async_callback(database.close)
        stack.push_async_callback(targets.close)
        stack.enter_context(trail.running())
        for part in (homes, announcements, queues):
            await stack.enter_async_context(part.running())
        feed = stack.enter_context(closing(ChangeFeed(settings.kafka, DISPATCHERS, _TOPICS)))
        switch_off = SwitchOff(connectors, queues, trail.record)
        deliverer = Deliverer(queues, targets, switch_off, Outgoing(PostgresAssets(home), trail))
        telling = Telling(feed, subscriptions, queues, targets)
        enforcer = EnforcementParts(settings, database, home).enforcer(announcements)
        await _work(settings, deliverer.run(), telling.run(), enforcer.run())


async def _work(settings: Settings, *loops: Coroutine[Any, Any, None]) -> None:
    """All loops, until a signal comes or one of them fails for good."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    marker = settings.data_dir / "run" / DISPATCHER_MARKER
    with suppress(OSError):
        marker.touch()
    work = [asyncio.create_task(each) for each in loops]
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([*work, stopping], return_when=asyncio.FIRST_COMPLETED)
    failed = [task for task in work if task.done()]
    for task in (*work, stopping):
        task.cancel()
    await asyncio.gather(*work, stopping, return_exceptions=True)
    for task in failed:
        task.result()  # what failed ends the process; its supervisor starts it again


def main() -> None:
    options = parser_of(COMPONENT, __doc__).parse_args()
    run_process(COMPONENT, options.data_dir, lambda settings: asyncio.run(run(settings)))


if __name__ == "__main__":
    main()
