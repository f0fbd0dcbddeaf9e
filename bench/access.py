"""`./lily bench access`: decisions a second beside plain Cedar and Casbin, and what access costs a reader.

The mix: a working set of 10,000 questions is asked once; of those measured nine tenths are from it and one
tenth is about a person and an asset at random (2,000 people, 20,000 assets). Rates are per second of one
core's time, so that other work on the machine does not count; the p99 is by the clock. The plain engines are
asked the same questions, as many as they answer in the time given, and must decide alike.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from bench.kit.access_engines import Casbin, Lily, PlainCedar
from bench.kit.access_gateways import measure_gateways
from bench.kit.access_worlds import World, draw, make_world
from bench.kit.platforms import say
from bench.kit.reports import Figures, report
from lily.access.decision_points import Asked

POLICIES = (50, 1_000, 10_000)
WORKING_SET, MEASURED, REPEATED, BATCH = 10_000, 100_000, 0.9, 1_000
SECONDS_FOR_OTHERS = 4.0


class Engine(Protocol):
    def single(self, asked: Asked) -> bool: ...

    def batch(self, asked: Sequence[Asked]) -> list[bool]: ...


def main() -> int:
    parser = argparse.ArgumentParser(prog="lily bench access", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1, help="of the random rules and questions (1)")
    parser.add_argument("--no-gateway", action="store_true", help="leave out what needs PostgreSQL")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    figures: Figures = {
        "seed": options.seed,
        "questions": MEASURED,
        "repeated_share": REPEATED,
        "batch": BATCH,
    }
    for policies in POLICIES:
        say(f"{policies:,} policies …")
        figures |= measure(policies, options.seed)
    if not options.no_gateway:
        say("The gateway …")
        figures |= measure_gateways(options.seed)
    report("access", figures, options.json)
    return 0


def measure(policies: int, seed: int) -> Figures:
    """Decisions a second with so many policies, by Lily and by the engines it stands beside."""
    world = make_world(policies, seed)
    working_set = draw(world, WORKING_SET, [], 0, seed + 1)
    measured = draw(world, MEASURED, working_set, REPEATED, seed + 2)
    figures = _lily(world, working_set, measured)
    others = measured[:20_000]
    for name, engine in (("cedarpy", PlainCedar(world)), ("casbin", Casbin(world, others))):
        _check_agreement(Lily(world), engine, others[:30])
        figures[f"{name}_single"] = _rate_within(lambda each, e=engine: e.single(each[0]), others, 1)
        figures[f"{name}_batched"] = _rate_within(engine.batch, others, 100)
    return {f"{name}_per_s_{policies}_policies": round(rate) for name, rate in figures.items()} | {
        f"single_p99_us_{policies}_policies": _warm_p99(world, working_set)
    }


def _lily(world: World, working_set: list[Asked], measured: list[Asked]) -> dict[str, float]:
    engine = Lily(world)
    engine.batch(working_set)
    started = time.process_time()
    for at in range(0, len(measured), BATCH):
        engine.batch(measured[at : at + BATCH])
    batched = len(measured) / (time.process_time() - started)
    engine = Lily(world)
    engine.batch(working_set)
    started = time.process_time()
    for asked in measured:
        engine.single(asked)
    return {"single": len(measured) / (time.process_time() - started), "batched": batched}


def _warm_p99(world: World, working_set: list[Asked]) -> float:
    """Of single decisions that were made before, in microseconds."""
    engine = Lily(world)
    engine.batch(working_set)
    taken = []
    for asked in working_set * 3:
        started = time.perf_counter()
        engine.single(asked)
        taken.append(time.perf_counter() - started)
    return round(float(np.percentile(taken, 99)) * 1e6, 1)


def _rate_within(run: Callable[[Sequence[Asked]], object], asked: Sequence[Asked], size: int) -> float:
    """Questions a second, asked `size` at a time until the time is over."""
    started, done = time.process_time(), 0
    while done < len(asked) and time.process_time() - started < SECONDS_FOR_OTHERS:
        run(asked[done : done + size])
        done += size
    return done / (time.process_time() - started)


def _check_agreement(ours: Engine, theirs: Engine, asked: Sequence[Asked]) -> None:
    """A comparison of engines that decide differently would compare nothing."""
    if ours.batch(asked) != theirs.batch(asked):
        raise SystemExit(f"{type(theirs).__name__} decides differently")


if __name__ == "__main__":
    sys.exit(main())
