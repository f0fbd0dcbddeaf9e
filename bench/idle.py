"""`./lily bench idle`: what an installation costs while nothing happens, and how quickly it starts again."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from bench.kit.platforms import Platform, platform_of, say
from bench.kit.processes import Usage, memory, spent, usage_by_group
from bench.kit.reports import Figures, report


def main() -> int:
    parser = argparse.ArgumentParser(prog="lily bench idle", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--settle", type=float, default=20, help="seconds to wait before measuring (20)")
    parser.add_argument("--seconds", type=float, default=30, help="measured time (30)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    with platform_of(options.data_dir) as platform:
        up_seconds = _second_start(platform) if platform.is_own else None
        figures = {"up_seconds": up_seconds, **measure(platform, options.settle, options.seconds)}
    report("an idle installation", figures, options.json)
    return 0


def _second_start(platform: Platform) -> float:
    """An installation of somebody else is not stopped for this."""
    say("Stopping it and starting it again …")
    platform.down()
    up_seconds = round(platform.up(), 2)
    platform.settle()  # else the start of the one that stands by is measured
    return up_seconds


def measure(platform: Platform, settle: float, seconds: float) -> Figures:
    time.sleep(settle)
    before = _without_bench(usage_by_group(platform.state))
    started = time.monotonic()
    time.sleep(seconds)
    after = _without_bench(usage_by_group(platform.state))
    lasted = time.monotonic() - started
    percent = {name: round(100 * used / lasted, 2) for name, used in spent(before, after).items()}
    total = sum(after.values(), Usage())
    return {
        "cpu_percent_of_one_core": round(sum(percent.values()), 2),
        "rss_bytes": total.rss_bytes,
        "pss_bytes": total.pss_bytes,
        "seconds": round(lasted, 1),
        "cpu_percent_by_process": percent,
        "memory_by_process": memory(after),
        "own_installation": platform.is_own,
    }


def _without_bench(usages: dict[str, Usage]) -> dict[str, Usage]:
    return {name: usage for name, usage in usages.items() if name != "bench"}


if __name__ == "__main__":
    sys.exit(main())
