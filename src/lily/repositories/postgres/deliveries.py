"""Deliveries as dispatchers share them: who holds a queue sends its first message, one after the other."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool
from pydantic_core import to_json

from lily.domain.deliveries import KEPT_DAYS, NewDelivery, QueueName, Receipt, Shipment, Status
from lily.domain.messages import Message, read_message
from lily.domain.subscriptions import Match
from lily.repositories.postgres.pool import CONNECT_SECONDS, Connection, Row
from lily.repositories.postgres.queries import load
from lily.repositories.postgres.told import notify_owners, record_matches

CHANNEL = "lily_deliveries"
#: Longer than any attempt may take; renewed before each message of a queue.
LEASE_SECONDS = 60.0
#: The class of the advisory locks on the numbers of dispatchers: "LD".
LOCK_CLASS = 0x4C44
#: Many send at once and each writes down what came of it; they wait for one another.
_POOL_SECONDS = 20.0
_MOST_FORGOTTEN = 10_000
#: What a crash of the database forgets of the last moment is sent again, under the same id. Waiting for its
#: disk four times for each message allowed 20 messages a second.
_OPTIONS = "-c timezone=UTC -c statement_timeout=10000 -c jit=off -c synchronous_commit=off"
_SQL = load("deliveries.sql")


class Finished(NamedTuple):
    """How many messages in a row the target has now failed to take, and how many are left in the queue."""

    dead_in_row: int
    left: int


class DeliveryQueues:
    """The queues as one dispatcher sees them, of all tenants; `holder` is its number."""

    def __init__(self, url: str, connections: int = 4, clock: datetime | None = None) -> None:
        self.url = url
        self.holder = 0
        self.clock = clock  # of tests; the database's otherwise
        self._pool = AsyncConnectionPool(
            url,
            kwargs={
                "autocommit": True,
                "connect_timeout": CONNECT_SECONDS,
                "options": _OPTIONS,
                "application_name": "lily-dispatcher",
            },
            min_size=1,
            max_size=connections,
            timeout=_POOL_SECONDS,
            reconnect_timeout=CONNECT_SECONDS,
            open=False,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self._pool.open(wait=False)
        try:
            yield
        finally:
            await self._pool.close()

    async def listen(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Be somebody, and hear on this connection of deliveries (`CHANNEL`) and of connectors.

        What this dispatcher holds is free again as soon as the connection ends.
        """
        await self._take_number(connection)
        await connection.execute(_SQL["listen"])
        await connection.execute(_SQL["listen_for_connectors"])

    async def _take_number(self, connection: psycopg.AsyncConnection[Any]) -> None:
        while True:
            holder = random.getrandbits(31)
            cursor = await connection.execute(
                _SQL["hold_number"], {"lock_class": LOCK_CLASS, "holder": holder}
            )
            row = await cursor.fetchone()
            if row and row[0]:
                self.holder = holder
                return

    async def enqueue(self, wanted: Sequence[NewDelivery]) -> int:
        """Have these delivered; returns how many were not known yet."""
        if not wanted:
            return 0
        async with self._surely() as connection:
            return await self._enqueue(connection, wanted)

    async def tell(
        self, matches: Sequence[Match], choose: Callable[[Sequence[Match]], Sequence[NewDelivery]]
    ) -> int:
        """Record what was matched as notifications and have delivered what is chosen of the new: both or
        none. Returns how many deliveries were not known yet."""
        if not matches:
            return 0
        async with self._surely() as connection:
            wanted = choose(await record_matches(connection, matches))
            return await self._enqueue(connection, wanted) if wanted else 0

    async def _enqueue(self, connection: Connection, wanted: Sequence[NewDelivery]) -> int:
        [(added, _)] = await run(connection, "enqueue", {**enqueue_values(wanted), "now": self.clock})
        return int(added)

    async def claim(self, rooms: Mapping[tuple[str, str], int], room: int, most: int) -> list[QueueName]:
        """Queues that are due, now held by this dispatcher: at most `most`, and of a target (tenant and
        connector) at most `rooms` says, else `room`."""
        values = {
            "lock_class": LOCK_CLASS,
            "holder": self.holder,
            "lease": LEASE_SECONDS,
            "tenant_ids": [tenant for tenant, _ in rooms],
            "connector_ids": [connector for _, connector in rooms],
            "rooms": list(rooms.values()),
            "room": room,
            "most": most,
        }
        return [QueueName(*row) for row in await self._run("claim", values)]

    async def begin(self, held: Mapping[QueueName, bool]) -> list[tuple[Shipment, bool]]:
        """The first message of each of these queues, and whether it must wait for another one of its group.

        The value of a queue says whether its target keeps groups together.
        """
        values = {
            "tenant_ids": [name.tenant_id for name in held],
            "connector_ids": [name.connector_id for name in held],
            "queues": [name.queue for name in held],
            "threads": list(held.values()),
        }
        return [(_shipment(row), row[13]) for row in await self._run("begin", values)]

    async def renew(self, name: QueueName) -> bool:
        """Whether this dispatcher still holds the queue and has a message to send from it now."""
        return bool(await self._run("renew", _of(name) | {"holder": self.holder, "lease": LEASE_SECONDS}))

    async def finish(self, shipment: Shipment, receipt: Receipt, status: Status, seconds: float) -> Finished:
        """The message is delivered or dead; it took so long. A queue with nothing left is released."""
        place = None if receipt.place is None else Jsonb(dict(receipt.place))
        values = _told(shipment, receipt, seconds) | {"status": status.value, "place": place}
        values["counts"] = status is Status.DEAD and receipt.blames_target
        values["holder"] = self.holder
        [(dead_in_row, left)] = await self._run("finish", values)
        return Finished(dead_in_row, left)

    async def tell_owners(self, tenant_id: str, connector_id: str, message: Message) -> list[str]:
        """Make a notification for everybody who has something told to this target; returns who they are."""
        named = {"tenant_id": tenant_id, "connector_id": connector_id}
        async with self._surely() as connection:
            await run(connection, "forgive", named)
            return await notify_owners(connection, named, message)

    async def postpone(self, shipment: Shipment, receipt: Receipt, seconds: float, pause: float) -> None:
        """The attempt failed; the queue waits for so long."""
        values = _told(shipment, receipt, seconds)
        values |= {"is_uncertain": not receipt.is_certain, "seconds": pause, "holder": self.holder}
        await self._run("postpone", values)

    async def step_back(self, shipment: Shipment, pause: float) -> None:
        """Nothing was sent; the queue waits for so long."""
        values: dict[str, Any] = _of(shipment.queue) | {"delivery_id": shipment.delivery_id}
        values |= {"is_uncertain": shipment.is_uncertain, "seconds": pause, "holder": self.holder}
        await self._run("step_back", values)

    async def hold_target(self, name: QueueName, pause: float) -> None:
        """Nothing goes to this queue's target for so long."""
        await self._run("hold_target", _of(name) | {"seconds": pause})

    async def release(self, name: QueueName) -> None:
        """Others may send from this queue."""
        await self._run("release", _of(name) | {"holder": self.holder})

    async def next_due(self) -> tuple[float | None, bool]:
        """In how many seconds something is due, and whether something is that cannot be claimed now."""
        [(seconds, is_held)] = await self._run("next_due", {})
        return seconds, is_held

    async def forget(self) -> None:
        """Forget what was finished long ago."""
        await self._run("forget", {"days": KEPT_DAYS})
        while len(await self._run("forget_causes", {"days": KEPT_DAYS, "most": _MOST_FORGOTTEN})):
            pass

    @asynccontextmanager
    async def _surely(self) -> AsyncIterator[Connection]:
        """A transaction that outlives a crash of the database."""
        async with self._pool.connection() as connection, connection.transaction():
            await run(connection, "surely", {})
            yield connection

    async def _run(self, query: str, values: Mapping[str, Any]) -> list[Row]:
        async with self._pool.connection() as connection:
            return await run(connection, query, {**values, "now": self.clock})


async def run(connection: Connection, query: str, values: Mapping[str, Any]) -> list[Row]:
    cursor = await connection.execute(_SQL[query], values)
    return await cursor.fetchall() if cursor.description else []


def enqueue_values(wanted: Sequence[NewDelivery]) -> dict[str, Any]:
    """The parameters of `enqueue`, in the order in which they are to be told."""
    return {
        "tenant_ids": [new.tenant_id for new in wanted],
        "delivery_ids": [new.delivery_id for new in wanted],
        "subscription_ids": [new.subscription_id for new in wanted],
        "causes": [_plain(new.cause) for new in wanted],
        "connector_ids": [new.connector_id for new in wanted],
        "options": [_json(new.options) for new in wanted],
        "queues": [_plain(new.queue) for new in wanted],
        "asset_ids": [new.message.asset_id and _plain(new.message.asset_id) for new in wanted],
        "group_keys": [_plain(new.message.group_key) for new in wanted],
        "messages": [_json(new.message.document()) for new in wanted],
        "told_at": [new.told_at for new in wanted],
    }


def _json(document: Mapping[str, Any]) -> str:
    """As jsonb can hold it, which has no U+0000."""
    return to_json(dict(document)).decode().replace("\\u0000", "\\ufffd")


def _of(name: QueueName) -> dict[str, Any]:
    return {"tenant_id": name.tenant_id, "connector_id": name.connector_id, "queue": name.queue}


def _told(shipment: Shipment, receipt: Receipt, seconds: float) -> dict[str, Any]:
    entry = {
        "attempt": shipment.attempt,
        "outcome": receipt.outcome.value,
        "status": receipt.status,
        "detail": _plain(receipt.detail[:500]),
        "seconds": round(seconds, 4),
    }
    return _of(shipment.queue) | {
        "delivery_id": shipment.delivery_id,
        "error": "" if receipt.outcome == "delivered" else _plain(receipt.detail[:2000]),
        "rendered": _plain(receipt.rendered),
        "entry": Jsonb(entry),
    }


def _plain(text: str) -> str:
    return text.replace("\x00", "�")


def _shipment(row: Row) -> Shipment:
    tenant_id, connector_id, queue, delivery_id, subscription_id, options, message, *rest = row[:13]
    return Shipment(
        QueueName(tenant_id, connector_id, queue),
        delivery_id,
        subscription_id,
        options,
        read_message(message),
        *rest,
    )
