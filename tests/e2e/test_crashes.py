"""kill -9 of every part under load: nothing acknowledged is lost, nothing counts twice, no reader goes back.

`LILY_CRASH_ROUNDS` repeats it, `LILY_CRASH_SEED` repeats one run.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import psutil
import pytest

from kit.eventually import eventually
from kit.load import Ledger, Load, Poller
from kit.model import Row
from kit.platform import Platform, Tenant, table

ROUNDS = int(os.environ.get("LILY_CRASH_ROUNDS", "1"))
SEED = int(os.environ.get("LILY_CRASH_SEED") or random.SystemRandom().randrange(2**32))
BACK_WITHIN = 120.0
LOADED = "crashes"

VICTIMS: dict[str, Callable[[Platform], int]] = {
    "streams": lambda platform: platform.pids()["streams"],
    "streams' JVM": lambda platform: descendant(platform, "streams", "java"),
    "gateway": lambda platform: platform.pids()["gateway"],
    "gateway's worker": lambda platform: descendant(platform, "gateway", "python"),
    "kafka": lambda platform: platform.pids()["kafka"],
    "postgres": lambda platform: platform.pids()["postgres"],
}


def descendant(platform: Platform, part: str, name: str) -> int:
    """The youngest child with this name: Granian also has a process that only tracks resources."""
    found = [process for process in platform.descendants(part) if process.name().startswith(name)]
    return int(max(found, key=lambda process: process.memory_info().rss).pid)


@dataclass
class Run:
    """What is published of a run."""

    seed: int
    recoveries: dict[str, list[float]] = field(default_factory=dict)

    def report(self, ledger: Ledger, poller: Poller) -> str:
        worst = {victim: f"{max(seconds):.1f} s" for victim, seconds in self.recoveries.items()}
        kills = sum(map(len, self.recoveries.values()))
        events = len(ledger.events)
        return (
            f"\nseed {self.seed}: {kills} kills, {events} events acknowledged ({ledger.retries} retries), "
            f"0 lost, 0 twice (95 %: rate < {3 / events:.1e}), {poller.reads} reads; worst recovery {worst}"
        )


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def seconds_until_back(platform: Platform) -> float:
    """From now until everything is healthy and a new fact is visible on both lanes."""
    started = time.monotonic()
    probe = Tenant(platform)
    assets = [table(), table("column", asset_type="column")]

    def is_back() -> bool:
        visible = probe.post({"assets": assets}, headers={"prefer": "wait=5"}).status_code == 200
        return visible and platform.health()["status"] == "healthy"

    eventually(is_back, BACK_WITHIN, (httpx.TransportError, ValueError))
    return time.monotonic() - started


def stored(platform: Platform) -> dict[str, Row]:
    rows = platform.fetch("SELECT * FROM assets WHERE tenant_id = %s", LOADED)
    return {row.pop("asset_id"): row for row in rows if row.pop("tenant_id")}


@pytest.mark.timeout(900 * ROUNDS)
def test_killing_any_part_under_load_loses_nothing_and_repeats_nothing(
    platform: Platform, capsys: pytest.CaptureFixture[str]
) -> None:
    chance, run = random.Random(SEED), Run(SEED)
    load, poller = Load(platform, LOADED, SEED), Poller(platform, LOADED)
    load.start()
    poller.start()
    try:
        for victim in [name for _ in range(ROUNDS) for name in chance.sample(sorted(VICTIMS), len(VICTIMS))]:
            threading.Event().wait(chance.uniform(0.5, 3))  # a random moment under load
            kill(VICTIMS[victim](platform))
            run.recoveries.setdefault(victim, []).append(seconds_until_back(platform))
    finally:
        print(f"LILY_CRASH_SEED={SEED}, recoveries {run.recoveries}")
        load.stop()
        poller.stop()
    ledger = load.ledger
    drain(platform, len(ledger.events))
    applied = platform.fetch("SELECT event_id FROM changes WHERE tenant_id = %s", LOADED)
    assert {row["event_id"] for row in applied} == set(ledger.events)  # I1
    assert len(applied) == len(ledger.events)  # I2
    assert stored(platform) == ledger.rows()  # I2: the version counts the events; I3: the state is theirs
    assert poller.reads > 0
    assert poller.steps_back == []  # I5
    assert not platform.fetch("SELECT FROM dead_letters WHERE tenant_id = %s", LOADED)
    with capsys.disabled():
        print(run.report(ledger, poller))


def drain(platform: Platform, events: int) -> None:
    def is_drained() -> bool:
        applied = platform.fetch("SELECT count(*) AS events FROM changes WHERE tenant_id = %s", LOADED)
        return bool(applied[0]["events"] >= events)

    eventually(is_drained, BACK_WITHIN)
    eventually(lambda: not any(lane["lag"] for lane in platform.health()["lanes"].values()), BACK_WITHIN)
