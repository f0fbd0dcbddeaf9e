"""A flood of columns on the leaf lane: on the log before the pipeline starts, or sent while it runs."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import psycopg

from bench.kit.fillers import fill, prefill
from bench.kit.leaf_readers import first_batch_began
from bench.kit.platforms import Platform, new_tenant, own_platform, say
from bench.kit.waiting import wait_until
from lily.standalone.installations import Installation
from lily.standalone.states import running_state

_START_SECONDS = 170.0


class Flood(Protocol):
    """`loose` returns when the pipeline works on it; once rows are visible, `began` tells when that began."""

    mode: str
    platform: Platform
    tenant: str

    def loose(self) -> None: ...

    def began(self) -> float: ...


@contextlib.contextmanager
def flood_of(data_dir: Path, columns: int) -> Iterator[Flood]:
    """Into the running installation of the data directory, or prepared for one of its own."""
    state = running_state(Installation.at(data_dir))
    with contextlib.ExitStack() as stack:
        pool = ThreadPoolExecutor(1)
        if state is not None:
            say(f"Using the installation on {data_dir}: the topic is filled while the pipeline runs.")
            yield _Live(Platform(data_dir, state.port, is_own=False), columns, pool)
        else:
            yield _Waiting(stack.enter_context(own_platform()), columns, pool)
        pool.shutdown()


class _Live:
    """The generator runs beside the pipeline, so the slower of the two makes the rate."""

    mode = "while_running"

    def __init__(self, platform: Platform, columns: int, pool: ThreadPoolExecutor) -> None:
        self.platform, self.tenant = platform, new_tenant()
        self._columns, self._pool = columns, pool
        self._began = 0.0

    def loose(self) -> None:
        self._began = time.monotonic()
        self._pool.submit(_in_process, fill, self.platform.settings.kafka, self.tenant, self._columns)

    def began(self) -> float:
        return self._began


class _Waiting:
    """All columns are on the log before the pipeline starts, so the pipeline alone makes the rate."""

    mode = "prefilled"

    def __init__(self, platform: Platform, columns: int, pool: ThreadPoolExecutor) -> None:
        self.platform, self.tenant = platform, new_tenant()
        say(f"Filling the leaf topic with {columns:,} columns …")
        _in_process(prefill, platform.data_dir, self.tenant, columns)
        say("Starting the installation …")
        self._starting = pool.submit(platform.up)
        self._wait_for(self._database_answers, "the database answers")

    def loose(self) -> None:
        self._wait_for(self._pipeline_runs, "the pipeline runs")

    def began(self) -> float:
        return first_batch_began(self.platform.settings.spark.checkpoints)

    def _wait_for(self, holds: Callable[[], bool], what: str) -> None:
        wait_until(lambda: holds() or _failed(self._starting), _START_SECONDS, what)

    def _database_answers(self) -> bool:
        try:
            with psycopg.connect(self.platform.database_url, connect_timeout=2):
                return True
        except psycopg.OperationalError:
            return False

    def _pipeline_runs(self) -> bool:
        components = self.platform.health().get("components", {})
        return bool(components.get("streams", {}).get("status") == "healthy")


def _failed(starting: Future[float]) -> bool:
    """Raises what the start raised."""
    if starting.done():
        starting.result()
    return False


def _in_process(target: Callable[..., object], *arguments: object) -> None:
    """In a process of its own: it shares no interpreter with the measurement."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    process.join()
    if process.exitcode != 0:
        raise RuntimeError(f"the topic could not be filled (exit code {process.exitcode}); see above")
