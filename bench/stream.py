"""`./lily bench stream`: how soon events sent through the REST API are visible in the database."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.kit.latencies import percentiles
from bench.kit.loads import Load, Outcome
from bench.kit.phases import phases_between, read_samples
from bench.kit.platforms import Platform, new_tenant, platform_of, say
from bench.kit.processes import memory, spent, usage_by_group
from bench.kit.reports import Figures, report
from bench.kit.schedules import Schedule

_PROGRESS_SECONDS = 5.0


@dataclass(frozen=True)
class Options:
    data_dir: Path
    rate: float
    seconds: float
    warmup: float
    batch: int
    seed: int
    json: Path | None


def main() -> int:
    options = _options()
    with platform_of(options.data_dir) as platform:
        figures = measure(platform, options)
    report(f"{options.rate:g} events/s for {options.seconds:g} s", figures, options.json)
    return 1 if figures["lost"] or figures["duplicated"] else 0


def measure(platform: Platform, options: Options) -> Figures:
    """Warm up and measure in one go: the warm-up's events count for losses, not for latencies."""
    schedule = Schedule.of(options.rate, options.warmup + options.seconds, options.batch)
    with Load(platform, new_tenant(), schedule, options.seed) as load:
        load.begin()
        _watch(load, options.warmup)
        used, samples = usage_by_group(platform.state), read_samples(platform.metrics())
        _watch(load, options.seconds + schedule.seconds)
        used_after, samples_after = usage_by_group(platform.state), read_samples(platform.metrics())
        outcome = load.finish()
    return {
        **_latencies(outcome, options),
        "phases": phases_between(samples, samples_after, "structural"),
        "cpu_seconds": spent(used, used_after),
        "memory": memory(used_after),
        "own_installation": platform.is_own,
        "batch": schedule.batch,
        "seed": options.seed,
    }


def _watch(load: Load, seconds: float) -> None:
    """Say how it goes until that time is over or everything is sent."""
    end = time.monotonic() + seconds
    told = time.monotonic()
    while time.monotonic() < end and load.sends:
        time.sleep(min(0.1, max(0.0, end - time.monotonic())))
        if time.monotonic() - told > _PROGRESS_SECONDS:
            told = time.monotonic()
            say(f"  accepted {load.accepted:>10,}   visible {load.seen:>10,}")


def _latencies(outcome: Outcome, options: Options) -> Figures:
    start = outcome.sent.started + options.warmup
    measured = outcome.joined.between(start, float("inf"))
    lasted = max(measured.accepted.max(initial=start) - start, 1e-9)
    from_send = percentiles(measured.visible - measured.due)
    acceptance = percentiles(measured.accepted - measured.due)
    ledger = outcome.ledger
    return {
        "rate": round(len(measured.due) / max(lasted, options.seconds), 1),
        "target_rate": options.rate,
        "seconds": options.seconds,
        **percentiles(measured.visible - measured.accepted),
        "lost": ledger.lost,
        "duplicated": outcome.joined.seen_again + ledger.applied_twice,
        "sent": outcome.receipts.events,
        "visible": outcome.receipts.events - outcome.joined.unseen,
        "measured": len(measured.due),
        "from_send_p50_s": from_send["p50_s"],
        "from_send_p99_s": from_send["p99_s"],
        "acceptance_p99_s": acceptance["p99_s"],
        "failed_requests": outcome.sent.failed,
        "dead_letters": ledger.dead,
        "without_effect": ledger.without_effect,
        "assets": ledger.assets,
    }


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="lily bench stream", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--rate", type=float, default=1000, help="events per second (1000)")
    parser.add_argument("--seconds", type=float, default=30, help="measured time (30)")
    parser.add_argument("--warmup", type=float, default=10, help="seconds at the same rate before (10)")
    parser.add_argument("--batch", type=int, default=0, help="events per request (chosen by the rate)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    positive = arguments.rate > 0 and arguments.seconds > 0 and arguments.warmup >= 0
    if not positive or not 0 <= arguments.batch <= 1000:
        parser.error("--rate and --seconds must be positive, --warmup not negative, --batch at most 1000")
    return Options(**vars(arguments))


if __name__ == "__main__":
    sys.exit(main())
