"""`./lily bench recovery`: kills the pipeline under load, again and again, and counts what that cost."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.kit.latencies import percentiles
from bench.kit.loads import Load, Outcome
from bench.kit.platforms import Platform, new_tenant, platform_of, say
from bench.kit.processes import driver_of
from bench.kit.reports import Figures, report
from bench.kit.schedules import Schedule

VICTIMS = ("python", "jvm")
_GIVE_UP_SECONDS = 120.0
#: After a recovery the platform runs undisturbed for this long, which shows whether it is its old self.
_SETTLE_SECONDS = 5.0
_BEFORE_KILL = (1.0, 5.0)


@dataclass(frozen=True)
class Kill:
    """One death: of which half of the driver, when, and when all was caught up; None if that never was."""

    victim: str
    at: float
    caught_up: float | None

    @property
    def seconds(self) -> float | None:
        return None if self.caught_up is None else round(self.caught_up - self.at, 2)


def main() -> int:
    options = _options()
    with platform_of(options.data_dir) as platform:
        figures = measure(platform, options)
    report(f"{options.runs} kills at {options.rate:g} events/s", figures, options.json)
    return 0 if figures["losses"] == figures["duplicates"] == figures["not_recovered"] == 0 else 1


def measure(platform: Platform, options: argparse.Namespace) -> Figures:
    chance = random.Random(options.seed)
    longest = options.warmup + options.runs * (_GIVE_UP_SECONDS + _SETTLE_SECONDS + max(_BEFORE_KILL))
    kills: list[Kill] = []
    with Load(platform, new_tenant(), Schedule.of(options.rate, longest), options.seed) as load:
        load.begin()
        time.sleep(options.warmup)
        for number in range(options.runs):
            _wait_for_standby(platform)
            time.sleep(chance.uniform(*_BEFORE_KILL))
            kills.append(_kill_and_wait(platform, load, chance.choice(VICTIMS)))
            say(f"  run {number + 1}: {kills[-1].victim} killed, caught up after {kills[-1].seconds} s")
            time.sleep(_SETTLE_SECONDS)
        outcome = load.finish(_GIVE_UP_SECONDS)
    return {**_summary(kills, outcome), "rate": options.rate, "seed": options.seed}


def _wait_for_standby(platform: Platform) -> None:
    """Each run begins as a platform runs: with another process standing by."""
    deadline = time.monotonic() + _GIVE_UP_SECONDS
    while platform.state.parts.get("standby", {}).get("state") != "ready" and time.monotonic() < deadline:
        time.sleep(0.2)


def _kill_and_wait(platform: Platform, load: Load, victim: str) -> Kill:
    """Caught up: another process runs, and less than one second of events waits, for half a second on end."""
    old = platform.state.children["streams"]
    os.kill(old if victim == "python" else driver_of(old), signal.SIGKILL)
    at, seen, since = time.monotonic(), load.seen, None
    while time.monotonic() - at < _GIVE_UP_SECONDS:
        time.sleep(0.02)
        behind = load.accepted - load.seen > load.schedule.rate or load.seen == seen
        if behind or platform.state.children.get("streams", old) == old:
            since = None
        elif since is None:
            since = time.monotonic()
        elif time.monotonic() - since > 0.5:
            return Kill(victim, at, since)
    return Kill(victim, at, None)


def _summary(kills: list[Kill], outcome: Outcome) -> Figures:
    seconds = np.array([kill.seconds for kill in kills if kill.seconds is not None])
    recovery = percentiles(seconds)
    losses, duplicates = outcome.ledger.lost, outcome.joined.seen_again + outcome.ledger.applied_twice
    not_recovered = sum(kill.caught_up is None for kill in kills)
    failed = losses or duplicates or not_recovered
    return {
        "runs": len(kills),
        "events": outcome.receipts.events,
        "losses": losses,
        "duplicates": duplicates,
        "not_recovered": not_recovered,
        "recovery_p50_s": recovery["p50_s"],
        "recovery_max_s": recovery["max_s"],
        "p99_after_s": max((p99 for kill in kills if (p99 := _p99_after(kill, outcome))), default=None),
        # With no failure in n runs, 3/n bounds the chance of one from above at 95 % confidence.
        "failure_rate_bound": None if failed else round(min(1.0, 3 / len(kills)), 3),
        "failed_requests": outcome.sent.failed,
        "kills": [_described(kill, outcome) for kill in kills],
    }


def _described(kill: Kill, outcome: Outcome) -> Figures:
    return {"victim": kill.victim, "recovery_s": kill.seconds, "p99_after_s": _p99_after(kill, outcome)}


def _p99_after(kill: Kill, outcome: Outcome) -> float | None:
    """The latency of the events due once it had caught up, if it had."""
    if kill.caught_up is None:
        return None
    after = outcome.joined.between(kill.caught_up + 1, kill.caught_up + _SETTLE_SECONDS)
    return percentiles(after.visible - after.accepted)["p99_s"]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lily bench recovery", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=20, help="how often it is killed (20)")
    parser.add_argument("--rate", type=float, default=5000, help="events per second (5000)")
    parser.add_argument("--warmup", type=float, default=10, help="seconds of load before the first kill (10)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    if options.runs < 1 or options.rate <= 0 or options.warmup < 0:
        parser.error("--runs and --rate must be positive, --warmup not negative")
    return options


if __name__ == "__main__":
    sys.exit(main())
