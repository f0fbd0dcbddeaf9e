"""The delivery loop: sends what is due, each queue in order, no target in another's way.

Several dispatchers share the queues. Who holds a queue sends its first message and marks it; when one dies,
its session with the database ends, and whoever looks next goes on where it was.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg
import structlog

from lily.domain.deliveries import QueueName, Shipment
from lily.domain.errors import Unavailable
from lily.repositories.postgres.deliveries import CHANNEL, DeliveryQueues
from lily.targets.attempts import Attempts, Switch, Then
from lily.targets.frame import Target
from lily.targets.opened import OpenTargets

#: So many messages are on their way to one target at once; a slow one does not take all.
TARGET_ROOM = 8
#: And so many to one that is slow to take nothing: a hundred of those leave room for the others.
SLOW_ROOM = 1
_MOST_SENDING = 512
#: Something is due that another one holds: it may be about to die.
_HELD_SECONDS = 1.0
_IDLE_SECONDS = 60.0
_FORGET_SECONDS = 3600.0
_RECONNECT_SECONDS = 0.5
_GROUP_PAUSE = 0.3
#: What could not be begun, or not noted in the audit, is tried again after this.
_TROUBLE_PAUSE = 1.0
_LOST = (psycopg.Error, Unavailable, OSError, TimeoutError)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Begun:
    """A message that is to be sent now, or that must wait for another one of its group."""

    target: Target
    shipment: Shipment
    must_wait: bool


class Deliverer:
    """Runs until it is cancelled; what was on its way then is sent again by somebody, under the same id."""

    def __init__(
        self,
        queues: DeliveryQueues,
        targets: OpenTargets,
        switch_off: Switch,
        note: Callable[[Sequence[Shipment]], Awaitable[None]],
    ) -> None:
        self._note = note
        self._queues = queues
        self._targets = targets
        self._wake = asyncio.Event()
        self._attempts = Attempts(queues, switch_off, self._wake.set)
        self._sending: Counter[tuple[str, str]] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_somebody = False

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._listen())
                tasks.create_task(self._claim_forever())
                tasks.create_task(self._forget_forever())
        finally:
            sending = list(self._tasks)
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_until_lost()
            except _LOST as error:
                _log.warning("deliveries_not_heard", error=type(error).__name__)
            self._is_somebody = False
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen_until_lost(self) -> None:
        connection = await psycopg.AsyncConnection.connect(
            self._queues.url, autocommit=True, connect_timeout=2, application_name="lily-dispatcher"
        )
        async with connection:
            await self._queues.listen(connection)
            self._targets.forget()
            self._is_somebody = True
            self._wake.set()
            async for notice in connection.notifies():
                if notice.channel == CHANNEL:
                    self._wake.set()
                else:
                    self._hear(notice.payload)

    def _hear(self, payload: str) -> None:
        with suppress(ValueError, TypeError):
            kind, tenant_id, key = json.loads(payload)
            if kind == "connector":
                self._targets.forget(tenant_id, key)

    async def _claim_forever(self) -> None:
        while True:
            self._wake.clear()
            seconds = _HELD_SECONDS
            try:
                if self._is_somebody and not await self._claim():
                    seconds = await self._pause()
                elif self._is_somebody:
                    continue
            except _LOST as error:
                _log.warning("deliveries_not_claimed", error=str(error))
            # Not wait_for: in Python 3.11 it takes no notice of a cancellation that meets the waking.
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()

    async def _claim(self) -> int:
        """Begin with what is due and there is room for; returns how many queues that are."""
        most = _MOST_SENDING - self._sending.total()
        if most <= 0:
            return 0
        rooms = {target: self._room(target) for target in {*self._sending, *self._attempts.slow}}
        claimed = await self._queues.claim(rooms, TARGET_ROOM, most)
        of_tenants: dict[str, list[QueueName]] = defaultdict(list)
        for name in claimed:
            self._sending[(name.tenant_id, name.connector_id)] += 1
            of_tenants[name.tenant_id].append(name)
        for names in of_tenants.values():
            self._start(self._serve_all(names))
        return len(claimed)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve_all(self, names: Sequence[QueueName]) -> None:
        """Queues of one tenant: whatever goes wrong with its data is in nobody else's way."""
        begun: dict[QueueName, _Begun] = {}
        try:
            begun = await self._begin(names)
        except Exception as error:
            _log.warning("deliveries_not_begun", tenant=names[0].tenant_id, error=repr(error))
            await asyncio.sleep(_TROUBLE_PAUSE)
        idle = [name for name in names if name not in begun]
        await self._release(idle)
        if not await self._is_noted(begun.values()):
            idle, begun = list(names), {}
        for name in idle:
            self._leave(name, is_more=True)
        for name, first in begun.items():
            self._start(self._serve(name, first))

    async def _begin(self, names: Sequence[QueueName]) -> dict[QueueName, _Begun]:
        """The first message of each of these queues; of an empty one none."""
        targets = {name: await self._targets.of(name.tenant_id, name.connector_id) for name in names}
        begun = await self._queues.begin({name: target.keeps_groups for name, target in targets.items()})
        return {
            shipment.queue: _Begun(targets[shipment.queue], shipment, must_wait)
            for shipment, must_wait in begun
        }

    async def _is_noted(self, begun: Collection[_Begun]) -> bool:
        """Whether the audit has what leaves now; else nothing leaves, and all is put back as it was."""
        try:
            await self._note([each.shipment for each in begun if not each.must_wait])
        except Exception as error:  # a tenant's data may be away in any way
            _log.warning("deliveries_not_noted", error=repr(error))
            with suppress(*_LOST):  # else the leases end by themselves, in a minute
                for each in begun:
                    await self._queues.step_back(each.shipment, _TROUBLE_PAUSE)
            return False
        return True

    async def _release(self, names: Sequence[QueueName]) -> None:
        """Others may send from these; if that cannot be said, the lease ends by itself, in a minute."""
        for name in names:
            with suppress(*_LOST):
                await self._queues.release(name)

    def _leave(self, name: QueueName, is_more: bool) -> None:
        """There is room again; look for more if there may be more."""
        key = (name.tenant_id, name.connector_id)
        is_more = is_more or not self._room(key) or self._sending.total() >= _MOST_SENDING
        self._sending[key] -= 1
        if not self._sending[key]:
            del self._sending[key]
        if is_more:
            self._wake.set()

    def _room(self, target: tuple[str, str]) -> int:
        room = SLOW_ROOM if target in self._attempts.slow else TARGET_ROOM
        return max(0, room - self._sending[target])

    async def _pause(self) -> float:
        due, is_held = await self._queues.next_due()
        wait = _HELD_SECONDS if is_held else _IDLE_SECONDS
        return wait if due is None else max(0.01, min(wait, due))

    async def _serve(self, name: QueueName, first: _Begun) -> None:
        is_more = True
        try:
            is_more = await self._send_in_order(name, first)
        except _LOST as error:
            _log.warning("delivery_interrupted", connector=name.connector_id, error=str(error))
            await self._release([name])
        finally:
            self._leave(name, is_more)

    async def _send_in_order(self, name: QueueName, first: _Begun) -> bool:
        """One message after the other; whether any is left for later."""
        begun: _Begun | None = first
        while begun:
            if begun.must_wait:
                await self._queues.step_back(begun.shipment, _GROUP_PAUSE)
                return True
            then = await self._attempts.make(begun.target, begun.shipment)
            if then is not Then.NEXT:
                return then is Then.LATER
            if not await self._queues.renew(name):
                break
            begun = (await self._begin([name])).get(name)
            if begun and not await self._is_noted([begun]):
                return True
        await self._queues.release(name)
        return True

    async def _forget_forever(self) -> None:
        while True:
            await asyncio.sleep(_FORGET_SECONDS * (0.5 + random.random()))
            with suppress(*_LOST):
                await self._queues.forget()
