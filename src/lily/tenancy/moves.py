"""Moves a tenant from one cell to another without losing anything.

All state comes from the log, so a move copies the tenant's records to the other cell's topics and lets that
cell's own queries build everything anew: catalog, history, lake. Copying goes on while the tenant is served.
For the last records its writes are asked to come back (503 with Retry-After) until the other cell has applied
them and both agree; then the tenant lives there. Stopped at any point, it still lives where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lily.domain.assets import Lane
from lily.domain.errors import Unavailable
from lily.domain.tenants import State
from lily.log.copies import Offsets, TenantCopy, end_offsets
from lily.log.replays import RawRecord
from lily.log.topics import LANE_TOPICS
from lily.repositories.postgres.tenant_admin import (
    CELL_TABLES,
    TenantAdmin,
    copy_keys,
    fingerprint,
    forget_rows,
    positions,
)
from lily.settings import Settings

#: A process of the gateway that was silent for this long no longer writes (routes.LEASE_SECONDS is less).
WORKER_SECONDS = 12.0
#: What may be missing when the writes are stopped: little, so that they are stopped for a moment only.
_NEARLY = 500
_LOOK_SECONDS = 0.05
_STALLED_SECONDS = 120.0
#: How long tags may take to follow in both cells; a tenant with very many is followed by itself.
_FOLLOWING_SECONDS = 60.0
_INGEST_TOPICS = tuple(LANE_TOPICS.values())

#: The query of every lane, as its position is named.
_QUERIES = {Lane.STRUCTURAL: "assets-structural", Lane.LEAF: "assets-leaf", Lane.LINEAGE: "lineage"}

Say = Callable[[str], None]
#: The tenant's records before these offsets, in order.
FromLake = Callable[[Offsets], Iterable[RawRecord]]


@dataclass(frozen=True)
class Home:
    """A cell as a move sees it: its name and the settings that lead to its parts."""

    name: str
    settings: Settings

    @property
    def url(self) -> str:
        return self.settings.database.url.get_secret_value()


@dataclass(frozen=True)
class Way:
    """From where to where."""

    source: Home
    target: Home


def move_tenant(admin: TenantAdmin, tenant_id: str, way: Way, from_lake: FromLake, say: Say) -> float:
    """Move; returns for how many seconds writes were asked to come back."""
    source, target = way.source, way.target
    copy = TenantCopy(source.settings.kafka, target.settings.kafka, tenant_id, _INGEST_TOPICS)
    first = copy.first_offsets()
    if any(offset for partitions in first.values() for offset in partitions.values()):
        say("Reading from the lake what the log no longer has …")
        copy.append(from_lake(first))
    while copy.advance() > _NEARLY:
        say(f"{copy.copied:,} records copied …")
    # A lane that is behind here, or starts there, is waited for while the tenant still writes.
    _wait_until_applied(source)
    _wait_until_applied(target)
    copy.advance()
    admin.set_state(tenant_id, State.MOVING)
    stopped = time.monotonic()
    try:
        stop_writes(admin, tenant_id)
        copy.advance()
        copy_keys(source.url, target.url, tenant_id)
        _wait_until_applied(source)
        _wait_until_applied(target)
        _compare(tenant_id, source, target)
    except BaseException:
        admin.set_state(tenant_id, State.ACTIVE)
        raise
    admin.settle(tenant_id, target.name)
    seconds = time.monotonic() - stopped
    copy.close()
    say(f"{copy.copied:,} records copied; {tenant_id} lives in the cell {target.name} now.")
    forget_rows(source.url, tenant_id, CELL_TABLES)
    return seconds


def stop_writes(admin: TenantAdmin, tenant_id: str) -> None:
    """Return when no process of the gateway writes for the tenant any more."""
    latest = time.monotonic() + 2 * WORKER_SECONDS
    while admin.is_still_written(tenant_id, WORKER_SECONDS):
        if time.monotonic() > latest:
            raise Unavailable("a gateway goes on writing for the tenant; nothing was moved, try again")
        time.sleep(_LOOK_SECONDS)


def _wait_until_applied(home: Home) -> None:
    """Return when the lanes of a cell have applied all that is on its log now; they must make progress."""
    ends = end_offsets(home.settings.kafka, LANE_TOPICS.values())
    seen, latest = positions(home.url), time.monotonic() + _STALLED_SECONDS
    while not _reach(seen, ends, home):
        time.sleep(_LOOK_SECONDS)
        now = positions(home.url)
        if now != seen:
            seen, latest = now, time.monotonic() + _STALLED_SECONDS
        elif time.monotonic() > latest:
            raise Unavailable(
                f"the queries of the cell {home.name} do not get on; nothing was moved. "
                "Is `lily up` running? Then try again."
            )


def _reach(applied: dict[str, dict[str, int]], ends: Offsets, home: Home) -> bool:
    return all(
        end <= applied.get(_QUERIES[lane], {}).get(str(partition), 0)
        for lane in Lane
        for partition, end in ends[LANE_TOPICS[lane].under(home.settings.kafka.topic_prefix)].items()
    )


def _compare(tenant_id: str, source: Home, target: Home) -> None:
    """Return when both cells have the same; what follows from events comes a moment after them."""
    latest = time.monotonic() + _FOLLOWING_SECONDS
    while True:
        here, there = fingerprint(source.url, tenant_id), fingerprint(target.url, tenant_id)
        if here == there:
            return
        if time.monotonic() > latest:
            raise Unavailable(
                f"the cells do not agree about {tenant_id}: {', '.join(here.differing(there))} differ "
                f"({here.events} events here, {there.events} there); nothing was moved, the tenant stays "
                "where it is"
            )
        time.sleep(_LOOK_SECONDS)
