"""kill -9 of every part under load: nothing acknowledged is lost, nothing counts twice, no reader goes back.

`LILY_CRASH_ROUNDS` repeats it, `LILY_CRASH_SEED` repeats one run.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

import httpx
import pytest

from kit.eventually import eventually
from kit.graphs import Graph, chain
from kit.load import Ledger, Load, Poller
from kit.model import Row
from kit.platform import Platform, Tenant, running_platform, table
from kit.processes import is_running

ROUNDS = int(os.environ.get("LILY_CRASH_ROUNDS", "1"))
SEED = int(os.environ.get("LILY_CRASH_SEED") or random.SystemRandom().randrange(2**32))
#: Generous, for a busy machine; how quick it is on a free one is for `lily bench` to say.
BACK_WITHIN = 180.0

#: In an order that leaves time for another pipeline to stand by before the next one dies.
VICTIMS: dict[str, Callable[[Platform], int]] = {
    "gateway": lambda platform: platform.pids()["gateway"],
    "streams": lambda platform: platform.pids()["streams"],
    "kafka": lambda platform: platform.pids()["kafka"],
    "postgres": lambda platform: platform.pids()["postgres"],
    "streams' JVM": lambda platform: descendant(platform, "streams", "java"),
}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """One that nobody else uses."""
    with running_platform(tmp_path_factory.mktemp("platform")) as running:
        yield running


def descendant(platform: Platform, part: str, name: str) -> int:
    return next(int(each.pid) for each in platform.descendants(part) if each.name().startswith(name))


@dataclass(frozen=True)
class Run:
    """What is published of a run."""

    victim: str
    seed: int
    ledger: Ledger
    poller: Poller
    recoveries: list[float]

    def __str__(self) -> str:
        events = len(self.ledger.events)
        return (
            f"\n{self.victim}: seed {self.seed}, {len(self.recoveries)} kills, {events} events acknowledged "
            f"({self.ledger.retries} retries), 0 lost, 0 twice (95 %: rate < {3 / events:.1e}), "
            f"{self.poller.reads} reads, worst recovery {max(self.recoveries):.1f} s"
        )


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_running(pid))


def seconds_until_back(platform: Platform) -> float:
    """From now until a new fact is visible on both lanes."""
    started = time.monotonic()
    probe = Tenant(platform)
    assets = [table(), table("column", asset_type="column")]

    def is_back() -> bool:
        answer = probe.post({"assets": assets}, headers={"prefer": "wait=30"})
        assert answer.status_code == 200, (answer.text, platform.health())
        return True

    eventually(is_back, BACK_WITHIN, (httpx.TransportError, ValueError))
    return time.monotonic() - started


def services(platform: Platform) -> dict[str, int]:
    """Their processes; the pipeline may choose to start over when what it reads from or writes to is gone."""
    return {part: pid for part, pid in platform.pids().items() if part in ("gateway", "kafka", "postgres")}


def under_load(platform: Platform, tenant: Tenant, victim: str, chance: random.Random) -> Run:
    """Kill the victim at random moments, each time when all is well again."""
    seed = chance.randrange(2**32)
    load, poller, recoveries = Load(platform, tenant.name, seed), Poller(platform, tenant.name), []
    load.start()
    poller.start()
    try:
        for _ in range(ROUNDS):
            platform.wait_until_healthy(BACK_WITHIN)
            threading.Event().wait(chance.uniform(0.5, 3))
            before = services(platform)
            kill(VICTIMS[victim](platform))
            recoveries.append(seconds_until_back(platform))
            restarted = {part for part, pid in services(platform).items() if pid != before[part]}
            assert restarted <= {victim}
    finally:
        load.stop()
        poller.stop()
    return Run(victim, SEED, load.ledger, poller, recoveries)


def stored(tenant: Tenant) -> dict[str, Row]:
    rows = tenant.platform.fetch("SELECT * FROM assets WHERE tenant_id = %s", tenant.name)
    return {row.pop("asset_id"): row for row in rows if row.pop("tenant_id")}


def applied_ids(tenant: Tenant) -> list[UUID]:
    rows = tenant.platform.fetch("SELECT event_id FROM changes WHERE tenant_id = %s", tenant.name)
    return [row["event_id"] for row in rows]


@pytest.mark.timeout(600 * ROUNDS)
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_killed_part_loses_nothing_and_repeats_nothing(
    platform: Platform, victim: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print(f"LILY_CRASH_SEED={SEED}")
    tenant = Tenant(platform)
    run = under_load(platform, tenant, victim, random.Random(f"{SEED} {victim}"))
    platform.wait_until_healthy(BACK_WITHIN)
    acknowledged = run.ledger.events
    eventually(lambda: len(applied_ids(tenant)) >= len(acknowledged), BACK_WITHIN)
    assert set(applied_ids(tenant)) == set(acknowledged)  # I1
    assert len(applied_ids(tenant)) == len(acknowledged)  # I2
    assert stored(tenant) == run.ledger.rows()  # I2: the version counts the events; I3: the state is theirs
    assert run.poller.reads > 0
    assert run.poller.steps_back == []  # I5
    assert not platform.fetch("SELECT FROM dead_letters WHERE tenant_id = %s", tenant.name)
    with capsys.disabled():
        print(run)


def test_the_pipeline_that_stood_by_takes_over_from_one_that_died(platform: Platform) -> None:
    """Scenario 29: it dies between a tag and its propagation, and each asset is told once."""
    graph = Graph(platform)
    eventually(lambda: platform.parts().get("standby", {}).get("state") == "ready", BACK_WITHIN)
    chain(graph)
    assert graph.tags("d") == []
    before = platform.pids()
    graph.tag("a", prefer="respond-async")
    kill(before["streams"])
    answer = graph.post(table(), headers={"prefer": "wait=30"})
    assert answer.status_code == 201, answer.text
    assert platform.pids()["streams"] == before["standby"]
    assert graph.having("PII", "a", "b", "c", "d") == "abcd"
    told = sorted((row["asset_id"], row["added"]) for row in graph.retagged())
    assert told == [(asset, ["PII"]) for asset in "abcd"]
    eventually(lambda: platform.pids().get("standby") not in (None, before["standby"]), BACK_WITHIN)
