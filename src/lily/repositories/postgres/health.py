"""What PostgreSQL knows about the health of the platform."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load

_QUERIES = load("health.sql")


@dataclass(frozen=True, slots=True)
class Heartbeat:
    component: str
    status: str
    details: dict[str, Any]
    age_seconds: float


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Where a streaming query's last batch ended: the next offset of every partition."""

    query: str
    offsets: dict[str, int]
    event_time: datetime | None
    applied_at: datetime


class PlatformHealth:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def heartbeats(self) -> list[Heartbeat]:
        return [Heartbeat(*row) for row in await self._database.fetch(_QUERIES["list_heartbeats"], {})]

    async def positions(self) -> dict[str, StreamPosition]:
        rows = await self._database.fetch(_QUERIES["list_stream_positions"], {})
        return {row[0]: StreamPosition(*row) for row in rows}
