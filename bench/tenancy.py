"""`./lily bench tenancy`: what a tenant notices of another one that asks for ten times its quota."""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, count, takewhile
from pathlib import Path
from threading import local
from typing import Any

import numpy as np

from bench.kit.platforms import Platform, new_tenant, platform_of, say
from bench.kit.reports import Figures, report
from lily.apps.tenants import Tenancy

REQUESTS_PER_SECOND = 20
EVENTS_PER_SECOND = 100
TIMES = 10
_BATCH = 50
_READS_PER_SECOND = 40
_WRITES_PER_SECOND = 10
_WRITERS = 16
_SEED = 20_261_118
_WARM_SECONDS = 60.0
_ASSETS = "/lily/v1/metadata"

Call = Callable[[str, str, str], int]
#: Seconds of every read and write.
Waits = dict[str, list[float]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="lily bench tenancy", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=20, help="of every phase (20)")
    parser.add_argument("--rounds", type=int, default=5, help="all phases, so many times (5)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    with platform_of(options.data_dir) as platform:
        figures = measure(platform, options.seconds, options.rounds)
    report("a quiet tenant beside a noisy one", figures, options.json)
    return 0


def measure(platform: Platform, seconds: float, rounds: int) -> Figures:
    """The quiet tenant's latencies in three surroundings, in turns: all see the same machine."""
    quiet, noisy = new_tenant(), f"{new_tenant()}-noisy"
    limits = {"requests_per_second": REQUESTS_PER_SECOND, "events_per_second": EVENTS_PER_SECOND}
    Tenancy(platform.settings).limit(noisy, limits)
    _warm(platform, quiet, noisy)
    waits: dict[str, list[Waits]] = {"alone": [], "beside_quota": [], "beside_noise": []}
    answers: Counter[int] = Counter()
    for number in range(rounds):
        say(f"Round {number + 1} of {rounds} …")
        waits["alone"].append(_ask(platform, quiet, seconds))
        waits["beside_quota"].append(_beside(platform, quiet, noisy, seconds, times=1)[0])
        waited, answered = _beside(platform, quiet, noisy, seconds, TIMES)
        waits["beside_noise"].append(waited)
        answers.update(answered)
    return _figures(waits, answers, rounds * (seconds + 2))


def _figures(waits: dict[str, list[Waits]], answers: Counter[int], seconds: float) -> Figures:
    figures: Figures = {}
    for kind in ("read", "write"):
        of_kind = {name: _summary(phases, kind) for name, phases in waits.items()}
        figures |= {f"{kind}_{name}": summary for name, summary in of_kind.items()}
        alone, quota, noise = (of_kind[name]["p99_ms"] for name in ("alone", "beside_quota", "beside_noise"))
        figures[f"{kind}_p99_ratio"] = round(noise / alone, 3)
        figures[f"{kind}_p99_ratio_over_quota"] = round(noise / quota, 3)
    return figures | {
        "noisy_requests_per_second": round(sum(answers.values()) / seconds, 1),
        "noisy_quota_requests_per_second": REQUESTS_PER_SECOND,
        "noisy_quota_events_per_second": EVENTS_PER_SECOND,
        "noisy_answers": {str(status): count for status, count in sorted(answers.items())},
    }


def _summary(phases: list[Waits], kind: str) -> Figures:
    """The middle one of the phases' percentiles: a hiccup of the machine in one of them decides nothing."""
    of_kind = [np.asarray(phase[kind]) * 1000 for phase in phases]
    middle, high = ([float(np.percentile(phase, each)) for phase in of_kind] for each in (50, 99))
    return {
        "p50_ms": round(float(np.median(middle)), 2),
        "p99_ms": round(float(np.median(high)), 2),
        "p99_ms_by_round": [round(each, 2) for each in high],
        "requests": sum(map(len, of_kind)),
    }


def _ask(platform: Platform, tenant: str, seconds: float) -> Waits:
    """Reads, due at a steady pace, and beside them writes that wait until they are visible."""
    with ThreadPoolExecutor(2) as threads:
        reading = threads.submit(_read, platform, tenant, seconds)
        writing = threads.submit(_write, platform, tenant, seconds)
        return Waits(read=reading.result(), write=writing.result())


def _read(platform: Platform, tenant: str, seconds: float) -> list[float]:
    """Seconds from when each read was due."""
    call, taken = _caller(platform, tenant), list[float]()
    began = time.perf_counter()
    while (due := began + len(taken) / _READS_PER_SECOND) < began + seconds:
        time.sleep(max(0.0, due - time.perf_counter()))
        _expect(call("GET", f"{_ASSETS}/quiet", ""))
        taken.append(time.perf_counter() - due)
    return taken


def _write(platform: Platform, tenant: str, seconds: float) -> list[float]:
    """Seconds from when each write was due.

    They come at random moments, as those of people do. Writers that send the next one when the last is
    answered fall into step with the pipeline and never meet a batch under way.
    """
    calls = local()
    began = time.perf_counter()

    def write(number: int, due: float) -> float:
        if not hasattr(calls, "call"):
            calls.call = _caller(platform, tenant)
        time.sleep(max(0.0, due - time.perf_counter()))
        _expect(calls.call("POST", _ASSETS, json.dumps(_asset(number % _WRITERS))))
        return time.perf_counter() - due

    dice = random.Random(_SEED)
    gaps = (dice.expovariate(_WRITES_PER_SECOND) for _ in count())
    dues = list(takewhile(lambda due: due < began + seconds, accumulate(gaps, initial=began)))
    with ThreadPoolExecutor(_WRITERS) as threads:
        return list(threads.map(write, count(), dues))


def _expect(status: int) -> None:
    if status not in (200, 201):
        raise RuntimeError(f"the quiet tenant was answered with {status}")


def _make_noise(platform: Platform, tenant: str, seconds: float, times: int) -> Counter[int]:
    """Reads and batches, each so many times what the tenant may."""
    call, answers = _caller(platform, tenant), Counter[int]()
    pace = times * REQUESTS_PER_SECOND
    every = REQUESTS_PER_SECOND * _BATCH // EVENTS_PER_SECOND
    began, number = time.perf_counter(), 0
    while (now := time.perf_counter()) < began + seconds:
        time.sleep(max(0.0, began + number / pace - now))
        if number % every == 0:
            status = call("POST", _ASSETS, json.dumps({"assets": [_asset(n) for n in range(_BATCH)]}))
        else:
            status = call("GET", f"{_ASSETS}/x", "")
        answers[status] += 1
        number += 1
    return answers


def _beside(
    platform: Platform, quiet: str, noisy: str, seconds: float, times: int
) -> tuple[Waits, Counter[int]]:
    """What the quiet tenant waited for, and what the other was answered."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        noise = pool.apply_async(_make_noise, (platform, noisy, seconds + 2, times))
        time.sleep(1)
        return _ask(platform, quiet, seconds), noise.get()


def _warm(platform: Platform, quiet: str, noisy: str) -> None:
    say("Warming up …")
    call = _caller(platform, quiet)
    for _ in range(20):
        call("POST", _ASSETS, json.dumps(_asset(0) | {"asset_id": "quiet"}))
    _beside(platform, quiet, noisy, _WARM_SECONDS, TIMES)


def _asset(number: int) -> dict[str, Any]:
    return {"asset_id": f"a{number}", "asset_name": f"n{time.time_ns()}", "asset_type": "table"}


def _caller(platform: Platform, tenant: str) -> Call:
    connection = http.client.HTTPConnection("127.0.0.1", platform.port, timeout=60)
    headers = {"Authorization": f"Bearer {platform.token(tenant)}", "Content-Type": "application/json"}
    if tenant.endswith("-noisy"):
        headers["Prefer"] = "respond-async"

    def call(method: str, path: str, body: str) -> int:
        connection.request(method, path, body or None, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    return call


if __name__ == "__main__":
    sys.exit(main())
