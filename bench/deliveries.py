"""`./lily bench deliveries`: kills dispatchers at random, and has one target of a hundred hang."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import numpy as np

from bench.kit.latencies import percentiles
from bench.kit.platforms import say
from bench.kit.reports import Figures, report
from kit.dispatchers import (
    Outcome,
    Teller,
    Trial,
    dispatchers,
    expected_ids,
    ids_of,
    judge,
    run_trial,
    subscribe,
)
from kit.receivers import Received, Receiver, Reply, receiver
from lily.apps.migrate import migrate
from lily.domain.subscriptions import Selection
from lily.settings import Settings, load_settings
from lily.standalone.services import start_services

_TARGETS = 100
_HUNG = "/target-0"
_HANG_SECONDS = 60.0
_ROUNDS = 5


def main() -> int:
    options = _options()
    with _services() as settings:
        outcomes = [_run(settings, options.seed + number, number) for number in range(options.runs)]
        figures = _summary(outcomes) | ({} if options.no_hang else measure_hang(settings, options.seconds))
    report(f"{options.runs} runs with killed dispatchers", figures, options.json)
    return 0 if all(outcome.holds for outcome in outcomes) else 1


@contextmanager
def _services() -> Iterator[Settings]:
    """PostgreSQL and Kafka of their own: what is told is put onto the log by the benchmark itself."""
    with tempfile.TemporaryDirectory(prefix="lily-bench-", ignore_cleanup_errors=True) as folder:
        services = start_services(Path(folder))
        try:
            settings = load_settings(Path(folder))
            migrate(settings)
            yield settings
        finally:
            services.stop()


def _run(settings: Settings, seed: int, number: int) -> Outcome:
    outcome = run_trial(settings, Trial(seed=seed))
    say(
        f"  run {number + 1}: {outcome.deliveries} deliveries, {outcome.kills} kills, {outcome.lost} lost, "
        f"{outcome.disorders} out of order, {outcome.duplicates} again (same id), {outcome.seconds:.0f} s"
    )
    return outcome


def _summary(outcomes: list[Outcome]) -> Figures:
    good = sum(outcome.holds for outcome in outcomes)
    deliveries, lost = sum(o.deliveries for o in outcomes), sum(o.lost for o in outcomes)
    return {
        "runs": len(outcomes),
        "runs_held": good,
        "deliveries": deliveries,
        "kills": sum(outcome.kills for outcome in outcomes),
        "lost": lost,
        "foreign_ids": sum(outcome.foreign for outcome in outcomes),
        "disorders": sum(outcome.disorders for outcome in outcomes),
        "duplicates_same_id": sum(outcome.duplicates for outcome in outcomes),
        # With no loss in n deliveries, 3/n bounds the chance of one from above at 95 % confidence.
        "loss_rate_bound": None if lost or not deliveries else round(3 / deliveries, 6),
    }


class Hanging:
    """A receiver of which one path does not answer while it is told to hang."""

    def __init__(self) -> None:
        self._free = threading.Event()
        self._free.set()

    def __call__(self, request: Received) -> Reply:
        if request.path == _HUNG:
            self._free.wait(_HANG_SECONDS)
        return Reply()

    @contextmanager
    def hangs(self) -> Iterator[None]:
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()


def measure_hang(settings: Settings, seconds: float) -> Figures:
    """The latency of 99 targets while the hundredth answers, and while it does not: in turns, because a
    moment in which the machine does something else decides the p99 of a short while."""
    tenant, answering = f"hang-{uuid4().hex[:8]}", Hanging()
    calm, hung = [], []
    with receiver(answering) as there, dispatchers(settings, 2):
        wanted = {
            f"target-{n}": (f"{there.url}/target-{n}", Selection(assets=frozenset({f"asset-{n}"})))
            for n in range(_TARGETS)
        }
        rules = subscribe(settings, tenant, wanted)
        _tell_others(settings, tenant, rules, there, seconds)  # warms up
        for _ in range(_ROUNDS):
            calm.append(_tell_others(settings, tenant, rules, there, seconds))
            with answering.hangs():
                hung.append(_tell_others(settings, tenant, rules, there, seconds))
    before, after = ([percentiles(np.array(each.latencies)) for each in part] for part in (calm, hung))
    before_p99, after_p99 = (statistics.median(each["p99_s"] for each in part) for part in (before, after))
    return {
        "hang_lost": sum(each.lost for each in hung),
        "calm_p50_s": statistics.median(each["p50_s"] for each in before),
        "calm_p99_s": before_p99,
        "hung_p50_s": statistics.median(each["p50_s"] for each in after),
        "hung_p99_s": after_p99,
        "hang_p99_ratio": round(after_p99 / before_p99, 3),
        "calm_p99_s_by_round": [each["p99_s"] for each in before],
        "hung_p99_s_by_round": [each["p99_s"] for each in after],
    }


def _tell_others(
    settings: Settings, tenant: str, rules: Mapping[str, str], there: Receiver, seconds: float
) -> Outcome:
    """Tell every target of its own asset once a second; what came of those that never hang."""
    teller = Teller(settings, tenant)
    teller.tell_at(_TARGETS, [f"asset-{number % _TARGETS}" for number in range(int(seconds * _TARGETS))])
    expected = {
        id_: (path, told)
        for id_, (path, told) in expected_ids(tenant, rules, teller.told).items()
        if path == f"/target-{told.asset_id.removeprefix('asset-')}" and path != _HUNG
    }
    deadline = time.monotonic() + 60
    while expected.keys() - ids_of(there) and time.monotonic() < deadline:
        time.sleep(0.1)
    return judge(expected, [r for r in there.received if r.id in expected], 0, 0.0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lily bench deliveries", description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="not used: it runs on services of its own")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each phase")
    parser.add_argument("--no-hang", action="store_true", help="only the runs with kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
