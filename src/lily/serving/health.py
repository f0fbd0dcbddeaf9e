"""How the platform is: each part asked within a bounded time, and how far each lane is behind."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lily.domain.assets import Lane
from lily.domain.errors import LilyError
from lily.log.ends import LogEnds
from lily.repositories.postgres.health import Heartbeat, PlatformHealth, StreamPosition
from lily.telemetry import LANE_LAG

HEALTHY, DEGRADED, UNHEALTHY = "healthy", "degraded", "unhealthy"
CHECK_SECONDS = 2.0
STALE_SECONDS = 8.0
#: More than this many events behind is no longer "within about a second".
DEGRADED_LAG = 100_000
_FRESH_SECONDS = 1.0

#: The query whose position tells how far a lane is.
_QUERIES = {
    Lane.STRUCTURAL: "assets-structural",
    Lane.LEAF: "assets-leaf",
    Lane.LINEAGE: "lineage",
}

Ends = dict[Lane, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Report:
    status: str
    components: dict[str, dict[str, Any]]
    lanes: dict[str, dict[str, Any]]


class Health:
    """Remembers its last report for a second, so that asking often costs nothing."""

    def __init__(self, platform: PlatformHealth, ends: LogEnds) -> None:
        self._platform = platform
        self._ends = ends
        self._lock = asyncio.Lock()
        self._asked_at = 0.0
        self._report = Report(UNHEALTHY, {}, {})

    async def report(self) -> Report:
        async with self._lock:
            if time.monotonic() - self._asked_at > _FRESH_SECONDS:
                self._report = await self._ask()
                self._asked_at = time.monotonic()
            return self._report

    async def _ask(self) -> Report:
        (beats, positions), ends = await asyncio.gather(self._ask_postgres(), self._ask_kafka())
        components = {
            "gateway": {"status": HEALTHY},
            "postgres": beats if isinstance(beats, dict) else {"status": HEALTHY},
            "kafka": {"status": HEALTHY} if not isinstance(ends, str) else _down(ends),
            **_streams(beats if isinstance(beats, list) else []),
        }
        lanes = {
            lane.value: _lane(lane, ends if not isinstance(ends, str) else {}, positions) for lane in Lane
        }
        return Report(_overall(components, lanes), components, lanes)

    async def _ask_postgres(self) -> tuple[list[Heartbeat] | dict[str, str], dict[str, StreamPosition]]:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                return await self._platform.heartbeats(), await self._platform.positions()
        except LilyError as error:
            return _down(error.message), {}
        except TimeoutError:
            return _down(f"no answer within {CHECK_SECONDS:g} s"), {}

    async def _ask_kafka(self) -> Ends | str:
        try:
            async with asyncio.timeout(2 * CHECK_SECONDS):
                return await asyncio.to_thread(self._ends.by_lane, CHECK_SECONDS)
        except LilyError as error:
            return error.message
        except TimeoutError:
            return f"no answer within {2 * CHECK_SECONDS:g} s"


def _down(detail: str) -> dict[str, str]:
    return {"status": UNHEALTHY, "detail": detail}


def _streams(beats: list[Heartbeat]) -> dict[str, dict[str, Any]]:
    """The processes that send heartbeats; the pipeline must be among them."""
    told = {beat.component: _beat(beat) for beat in beats}
    return {"streams": _down("no heartbeat was ever seen; is `lily up` running?")} | told


def _beat(beat: Heartbeat) -> dict[str, Any]:
    age = round(beat.age_seconds, 1)
    if age > STALE_SECONDS:
        return _down(f"last heartbeat {age} s ago") | {"heartbeat_age_seconds": age}
    told = {"heartbeat_age_seconds": age, "details": beat.details}
    if beat.status not in (HEALTHY, DEGRADED):
        return _down(f"it says: {beat.status}") | told
    return {"status": beat.status} | told


def _lane(lane: Lane, ends: Ends, positions: dict[str, StreamPosition]) -> dict[str, Any]:
    position = positions.get(_QUERIES[lane])
    if lane not in ends:
        return {"lag": None, "current_as_of": position.applied_at if position else None}
    read = position.offsets if position else {}
    lag = sum(max(0, end - int(read.get(partition, 0))) for partition, end in ends[lane].items())
    LANE_LAG.labels(lane.value).set(lag)
    return {"lag": lag, "current_as_of": datetime.now(UTC) if not lag else _applied_at(position)}


def _applied_at(position: StreamPosition | None) -> datetime | None:
    return position.applied_at if position else None


def _overall(components: dict[str, dict[str, Any]], lanes: dict[str, dict[str, Any]]) -> str:
    statuses = {component["status"] for component in components.values()}
    if UNHEALTHY in statuses:
        return UNHEALTHY
    behind = any((lane["lag"] or 0) > DEGRADED_LAG for lane in lanes.values())
    return DEGRADED if behind or statuses != {HEALTHY} else HEALTHY
