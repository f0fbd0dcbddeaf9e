"""The delivery loop ends when it is asked to."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from lily.targets.delivering import Deliverer


class Idle:
    """Queues in which nothing ever is."""

    async def claim(self, *_: Any) -> list[Any]:
        return []

    async def next_due(self) -> tuple[None, bool]:
        return None, False


@pytest.mark.parametrize("hops", range(4))
def test_a_dispatcher_that_is_stopped_while_it_is_woken_stops(hops: int) -> None:
    async def run() -> bool:
        idle = cast("Any", Idle())
        loop = Deliverer(idle, idle, idle, idle)
        loop._is_somebody = True
        claiming = asyncio.create_task(loop._claim_forever())
        await asyncio.sleep(0.01)
        loop._wake.set()
        for _ in range(hops):
            await asyncio.sleep(0)
        claiming.cancel()
        done, _ = await asyncio.wait({claiming}, timeout=1)
        for task in {claiming} - done:
            task.cancel()
        return bool(done)

    assert asyncio.run(run())
