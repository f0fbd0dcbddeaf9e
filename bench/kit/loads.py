"""A load: the sender and the independent reader, started together and joined at the end."""

from __future__ import annotations

import functools
import multiprocessing
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from bench.kit.latencies import Joined, Receipts, join
from bench.kit.ledgers import Ledger, read_ledger
from bench.kit.platforms import Platform
from bench.kit.readers import Reading, read
from bench.kit.schedules import Schedule
from bench.kit.senders import Sending, Sent, send

ASSETS = 100_000
_CONNECTIONS = 4
_LOST_AFTER_SECONDS = 30.0
_START_SECONDS = 60.0
_STOP_SECONDS = 60.0


@dataclass(frozen=True)
class Outcome:
    """What came of a load. `ledger` is what the database says of it after the end."""

    sent: Sent
    joined: Joined
    ledger: Ledger

    @property
    def receipts(self) -> Receipts:
        return self.sent.receipts


class Load:
    """Structural events through the REST API while the context is open; always leave it with `finish`."""

    def __init__(self, platform: Platform, tenant: str, schedule: Schedule, seed: int) -> None:
        self.schedule = schedule
        self._platform = platform
        self._tenant = tenant
        context = multiprocessing.get_context("spawn")
        process = functools.partial(context.Process, daemon=True)
        self._go, self._stop_sending, self._stop_reading = (context.Event() for _ in range(3))
        self._accepted, self._seen = context.Value("q", 0), context.Value("q", 0)
        self._from_sender, self._to_sender = context.Pipe()
        self._from_reader, self._to_reader = context.Pipe()
        sending = Sending(
            platform.port, platform.token(tenant), schedule, ASSETS, _connections(schedule), seed
        )
        reading = Reading(platform.database_url, 0.005 if schedule.rate <= 10 else 0.02)
        self._sender = process(
            target=send, args=(sending, self._go, self._stop_sending, self._accepted, self._to_sender)
        )
        self._reader = process(target=read, args=(reading, self._stop_reading, self._seen, self._to_reader))

    def __enter__(self) -> Load:
        for process, theirs, ours in (
            (self._sender, self._to_sender, self._from_sender),
            (self._reader, self._to_reader, self._from_reader),
        ):
            process.start()
            theirs.close()  # so that the end of the process is the end of the pipe
            _receive(ours, _START_SECONDS)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for process in (self._sender, self._reader):
            process.kill()
            process.join()

    @property
    def accepted(self) -> int:
        return int(self._accepted.value)

    @property
    def seen(self) -> int:
        return int(self._seen.value)

    @property
    def sends(self) -> bool:
        return not self._from_sender.poll(0)

    def begin(self) -> None:
        self._go.set()

    def finish(self, patience: float = _LOST_AFTER_SECONDS) -> Outcome:
        """Stop sending if that goes on, wait until all is visible or patience is over, and join."""
        if self.sends:
            self._stop_sending.set()
        sent: Sent = _receive(self._from_sender, _STOP_SECONDS)
        deadline = time.monotonic() + patience
        while self.seen < sent.receipts.events and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(0.3)  # a repeated event would come late
        self._stop_reading.set()
        sightings = _receive(self._from_reader, _STOP_SECONDS)
        ledger = read_ledger(self._platform.database_url, self._tenant, sent.receipts)
        return Outcome(sent, join(sent.receipts, sightings), ledger)


def _connections(schedule: Schedule) -> int:
    return _CONNECTIONS if schedule.batch > 1 else 2


def _receive(results: Any, seconds: float) -> Any:
    if not results.poll(seconds):
        raise TimeoutError(f"a process of the benchmark gave no answer within {seconds:.0f} s")
    return results.recv()
