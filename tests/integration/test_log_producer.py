"""Who appends hears of it: when the broker has it, or that this is not certain."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from lily.domain.errors import Unavailable
from lily.log.producer import LogProducer
from lily.log.records import Record
from lily.log.topics import Topic
from lily.settings import KafkaSettings

SOON = 20


@pytest.fixture
def log(topics: KafkaSettings) -> Iterator[LogProducer]:
    opened = LogProducer(topics)
    opened.start()
    yield opened
    opened.close()


def records(count: int) -> dict[Topic, list[Record]]:
    return {Topic.STRUCTURAL_ASSETS: [Record(b"acme/%d" % n, b"{}", [("ce_id", b"1")]) for n in range(count)]}


async def append(log: LogProducer, *counts: int) -> None:
    async with asyncio.timeout(SOON):
        await asyncio.gather(*(log.append(records(count)) for count in counts))


def test_all_who_append_at_once_hear_of_it(log: LogProducer) -> None:
    asyncio.run(append(log, *[1, 100, 1000] * 5))


def test_it_is_heard_again_after_a_rest_and_in_another_loop(log: LogProducer) -> None:
    async def twice() -> None:
        await append(log, 1)
        await asyncio.sleep(0.05)  # long enough for nobody to ask any more
        await append(log, 1)

    asyncio.run(twice())
    asyncio.run(twice())


def test_one_who_no_longer_waits_keeps_nobody_from_hearing(log: LogProducer) -> None:
    async def given_up() -> None:
        left = asyncio.create_task(log.append(records(10)))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        assert left.cancelled()
        await append(log, 1)

    asyncio.run(given_up())
    asyncio.run(append(log, 1))


def test_without_a_broker_it_is_heard_that_nothing_is_certain() -> None:
    log = LogProducer(KafkaSettings(bootstrap_servers="127.0.0.1:9"))
    log.start()
    with pytest.raises(Unavailable, match="did not acknowledge"):
        asyncio.run(append(log, 2))
    log.close()
