"""Dispatchers of a test: the real delivery loop over the real PostgreSQL, with connectors the test gives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.rows import dict_row

from lily.domain.connectors import Connector
from lily.domain.deliveries import NewDelivery, Shipment
from lily.domain.errors import Unavailable
from lily.domain.messages import Message
from lily.repositories.postgres.deliveries import DeliveryQueues
from lily.targets.delivering import Deliverer
from lily.targets.egress import AllowList, Egress
from lily.targets.frame import target_types
from lily.targets.opened import OpenTargets

LOOPBACK = "127.0.0.0/8"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Connectors:
    """A registry in memory, with what `PostgresConnectors` offers to dispatchers."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Connector, dict[str, str]]] = {}
        self.reasons: list[str] = []  # why they were switched off

    def add(self, type_: str, config: Mapping[str, Any], **secrets: str) -> str:
        connector_id, now = str(uuid4()), datetime.now(UTC)
        made = Connector("acme", connector_id, type_, type_, config, False, tuple(secrets), "ada", now, now)
        self._known[connector_id] = (made, secrets)
        return connector_id

    def webhook(self, url: str, **secrets: str) -> str:
        return self.add("webhook", {"url": url}, **({"secret": SECRET} | secrets))

    def is_disabled(self, connector_id: str) -> bool:
        return self._known[connector_id][0].is_disabled

    async def find(self, _tenant_id: str, connector_id: str) -> Connector | None:
        return self._known[connector_id][0] if connector_id in self._known else None

    async def secrets_of(self, connector: Connector) -> dict[str, str]:
        return self._known[connector.connector_id][1]

    async def switch_off(self, _tenant_id: str, connector_id: str, why: str) -> None:
        self.reasons.append(why)
        connector, secrets = self._known[connector_id]
        self._known[connector_id] = (replace(connector, is_disabled=True), secrets)


def message(title: str = "Freshness", asset_id: str | None = "orders", **said: Any) -> Message:
    values = {
        "text": "",
        "severity": "SEV-1",
        "change": "incident.opened",
        "state": "open",
        "reason": "the subscription 'on call' of ada selects everything",
        "group_key": f"incident:{asset_id}",
    }
    return Message(title=title, asset_id=asset_id, **(values | said))


def new(connector_id: str, cause: str = "", said: Message | None = None, **options: Any) -> NewDelivery:
    return NewDelivery(
        "acme", "rule", cause or str(uuid4()), connector_id, said or message(), datetime.now(UTC), options
    )


class Dispatch:
    """One dispatcher's delivery loop, and what the database knows of deliveries."""

    def __init__(self, url: str, connectors: Connectors, allow: str = LOOPBACK) -> None:
        self._connection = psycopg.connect(url, autocommit=True, row_factory=dict_row)
        self.queues = DeliveryQueues(url)
        self.targets = OpenTargets(connectors, target_types(), Egress(AllowList(allow)))
        self.noted: list[UUID] = []
        self.cannot_note: set[str] = set()  # tenants whose data is not there
        self.loop = Deliverer(self.queues, self.targets, connectors.switch_off, self._note)

    async def _note(self, shipments: Sequence[Shipment]) -> None:
        if any(shipment.queue.tenant_id in self.cannot_note for shipment in shipments):
            raise Unavailable("the cell of this tenant does not answer")
        self.noted += [shipment.delivery_id for shipment in shipments]

    async def enqueue(self, *wanted: NewDelivery) -> int:
        return await self.queues.enqueue(wanted)

    def rows(self) -> list[dict[str, Any]]:
        return self._connection.execute("SELECT * FROM deliveries ORDER BY seq").fetchall()

    def row(self, delivery: NewDelivery | UUID) -> dict[str, Any]:
        wanted = delivery if isinstance(delivery, UUID) else delivery.delivery_id
        return next(row for row in self.rows() if row["delivery_id"] == wanted)

    def execute(self, statement: str) -> None:
        self._connection.execute(statement.encode())

    def close(self) -> None:
        self._connection.close()

    def make_due(self) -> None:
        """Now is the time of every attempt that waits."""
        self.execute("UPDATE delivery_queues SET next_at = now()")
        self.execute("UPDATE delivery_targets SET held_until = '-infinity'")
        self.execute("NOTIFY lily_deliveries")

    async def settled(self, deliveries: Sequence[NewDelivery], within: float = 20) -> list[str]:
        """Their states, when none is pending any more."""
        wanted = {each.delivery_id for each in deliveries}
        async with asyncio.timeout(within):
            while True:
                found = [row["status"] for row in self.rows() if row["delivery_id"] in wanted]
                if len(found) == len(wanted) and "pending" not in found:
                    return found
                await asyncio.sleep(0.05)

    async def attempted(self, delivery: NewDelivery, times: int, within: float = 20) -> dict[str, Any]:
        """Its row, when so many attempts are written down."""
        async with asyncio.timeout(within):
            while True:
                row = self.row(delivery)
                if len(row["log"]) >= times:
                    return row
                await asyncio.sleep(0.05)


@asynccontextmanager
async def dispatching(url: str, connectors: Connectors, allow: str = LOOPBACK) -> AsyncIterator[Dispatch]:
    dispatch = Dispatch(url, connectors, allow)
    async with dispatch.queues.running():
        task = asyncio.create_task(dispatch.loop.run())
        try:
            yield dispatch
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await dispatch.targets.close()
            dispatch.close()
