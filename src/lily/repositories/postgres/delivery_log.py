"""What came of deliveries, for those who look and those who want them sent again; one tenant at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

from lily.domain.deliveries import NewDelivery
from lily.repositories.postgres.deliveries import enqueue_values
from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load

_SQL = load("deliveries.sql")


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """What is looked for; None does not filter."""

    status: str | None = None
    subscription_id: str | None = None
    connector_id: str | None = None
    asset_id: str | None = None
    delivery_id: str | None = None


class LoggedDelivery(NamedTuple):
    seq: int
    delivery_id: str
    subscription_id: str
    cause: str
    connector_id: str
    asset_id: str | None
    status: str
    attempts: int
    failures: int
    told_at: datetime
    created_at: datetime
    finished_at: datetime | None
    error: str
    rendered: str
    message: dict[str, Any]
    log: list[dict[str, Any]]
    next_attempt: datetime | None

    @property
    def latency(self) -> float | None:
        """Seconds from the change to the target's acknowledgement."""
        if self.status != "delivered" or self.finished_at is None:
            return None
        return (self.finished_at - self.told_at).total_seconds()


class DeliveryLog:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def newest(
        self, tenant_id: str, wanted: DeliveryFilter, before: int | None, most: int
    ) -> list[LoggedDelivery]:
        """At most so many before that number, the newest first."""
        values = asdict(wanted) | {"tenant_id": tenant_id, "before": before, "most": most}
        return [LoggedDelivery(*row) for row in await self._database.fetch(_SQL["list_deliveries"], values)]

    async def find(self, tenant_id: str, delivery_id: str) -> LoggedDelivery | None:
        found = await self.newest(tenant_id, DeliveryFilter(delivery_id=delivery_id), None, 1)
        return found[0] if found else None

    async def replay(self, tenant_id: str, delivery_ids: Sequence[str]) -> int:
        """Have finished ones sent again, under their old ids; returns how many that are."""
        values = {"tenant_id": tenant_id, "delivery_ids": list(delivery_ids)}
        [(again, _)] = await self._database.fetch(_SQL["replay"], values)
        return int(again)

    async def request(self, wanted: NewDelivery) -> bool:
        """Have one message delivered; whether it was not known yet."""
        values = enqueue_values([wanted]) | {"now": None, "tenant_id": wanted.tenant_id}
        [(added, _)] = await self._database.fetch(_SQL["enqueue"], values)
        return bool(added)
