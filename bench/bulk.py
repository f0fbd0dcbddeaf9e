"""`./lily bench bulk`: how fast columns by the million become rows while structural events go on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.kit.floods import Flood, flood_of
from bench.kit.latencies import percentiles
from bench.kit.leaf_readers import LeafProgress
from bench.kit.loads import Load, Outcome
from bench.kit.phases import phases_between, read_samples
from bench.kit.platforms import say
from bench.kit.processes import memory, spent, usage_by_group
from bench.kit.reports import Figures, report
from bench.kit.schedules import Schedule
from bench.kit.waiting import wait_until

_SLOWEST_RATE = 4000
_MUST_BE_ZERO = ("lost", "duplicated", "structural_lost", "structural_duplicated")
_PATIENCE_SECONDS = 240.0


def main() -> int:
    options = _options()
    with flood_of(options.data_dir, options.assets) as flood:
        figures = measure(flood, options)
    report(f"{options.assets:,} columns through the leaf lane", figures, options.json)
    return 1 if any(figures[count] for count in _MUST_BE_ZERO) else 0


def measure(flood: Flood, options: argparse.Namespace) -> Figures:
    """Structural events run from the moment the pipeline works until the last column is visible."""
    platform, columns = flood.platform, options.assets
    longest = _PATIENCE_SECONDS + columns / _SLOWEST_RATE
    schedule = Schedule.of(options.structural_rate, longest)
    load = Load(platform, f"{flood.tenant}-structural", schedule, options.seed)
    with load, LeafProgress(platform.database_url) as leaf:
        flood.loose()
        load.begin()
        used, samples = usage_by_group(platform.state), read_samples(platform.metrics())
        wait_until(lambda: _look(leaf) >= columns, longest, f"{columns:,} columns are visible", 0.05)
        used_after, samples_after = usage_by_group(platform.state), read_samples(platform.metrics())
        outcome = load.finish()
        rows, versions = leaf.rows(flood.tenant)
        figures = _leaf_figures(leaf, flood.began(), columns)
    return {
        **figures,
        **_structural_figures(outcome, leaf.batches[-1][0]),
        "lost": columns - rows,
        "duplicated": max(0, versions - columns),
        "structural_rate": options.structural_rate,
        "mode": flood.mode,
        "phases": {lane: phases_between(samples, samples_after, lane) for lane in ("leaf", "structural")},
        "cpu_seconds": spent(used, used_after),
        "memory": memory(used_after),
        "seed": options.seed,
    }


def _look(leaf: LeafProgress) -> int:
    known = len(leaf.batches)
    events = leaf.look()
    if len(leaf.batches) > known:
        say(f"  visible {events:>10,}")
    return events


def _leaf_figures(leaf: LeafProgress, began: float, columns: int) -> Figures:
    (first, of_first), (last, of_last) = leaf.batches[0], leaf.batches[-1]
    seconds = last - began
    steady = (of_last - of_first) / (last - first) if last > first else None
    return {
        "assets": columns,
        "rate": round(columns / seconds, 1),
        "seconds": round(seconds, 2),
        "first_batch_s": round(first - began, 2),
        "rate_after_first_batch": round(steady, 1) if steady else None,
    }


def _structural_figures(outcome: Outcome, leaf_ended: float) -> Figures:
    during = outcome.joined.between(0, leaf_ended)
    figures = percentiles(during.visible - during.accepted)
    return {
        **{f"structural_{name}": value for name, value in figures.items()},
        "structural_events": len(during.due),
        "structural_lost": outcome.ledger.lost,
        "structural_duplicated": outcome.joined.seen_again + outcome.ledger.applied_twice,
        "failed_requests": outcome.sent.failed,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lily bench bulk", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--assets", type=int, default=2_000_000, help="columns to load (2,000,000)")
    parser.add_argument(
        "--structural-rate", type=float, default=500, help="tables per second meanwhile (500)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    if options.assets < 1 or options.structural_rate <= 0:
        parser.error("--assets and --structural-rate must be positive")
    return options


if __name__ == "__main__":
    sys.exit(main())
