"""The sender: a process that posts batches through the public REST API on an open-loop schedule."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from typing import NamedTuple
from uuid import UUID

import numpy as np

from bench.kit.events import table_batch
from bench.kit.latencies import Receipts
from bench.kit.schedules import Schedule
from lily.domain.event_ids import size_of

PATH = "/lily/v1/metadata"
ACCEPTED = 202
_HOST = "127.0.0.1"
_TIMEOUT_SECONDS = 30.0
_NAP_SECONDS = 0.2


@dataclass(frozen=True)
class Sending:
    """What to send and to whom; the same seed sends the same assets in the same order."""

    port: int
    token: str
    schedule: Schedule
    assets: int
    connections: int
    seed: int


class Sent(NamedTuple):
    """What the sender hands back; `failed` counts requests that were not accepted, by reason."""

    receipts: Receipts
    started: float
    failed: dict[str, int]


class _Receipt(NamedTuple):
    batch_id: bytes
    due: float
    accepted: float


def send(sending: Sending, go: Event, stop: Event, accepted: Synchronized[int], results: Connection) -> None:
    """Run as a process: wait for `go`, send until the schedule or `stop` ends it, hand back the receipts."""
    run = _Run(sending, stop, accepted)
    results.send("ready")
    go.wait()
    results.send(run.send_all())


class _Run:
    def __init__(self, sending: Sending, stop: Event, accepted: Synchronized[int]) -> None:
        self._sending = sending
        self._stop = stop
        self._accepted = accepted
        self._bodies = _bodies(sending)
        self._lock = threading.Lock()
        self._receipts: list[_Receipt] = []
        self._failed: dict[str, int] = {}
        self._started = 0.0

    def send_all(self) -> Sent:
        self._started = time.monotonic()
        workers = [threading.Thread(target=self._work) for _ in range(self._sending.connections)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return Sent(_as_arrays(self._receipts), self._started, self._failed)

    def _work(self) -> None:
        connection = http.client.HTTPConnection(_HOST, self._sending.port, timeout=_TIMEOUT_SECONDS)
        while (request := self._next()) is not None:
            number, body = request
            due = self._started + self._sending.schedule.due(number)
            if not self._sleep_until(due):
                break
            self._post(connection, due, body)
        connection.close()

    def _next(self) -> tuple[int, bytes] | None:
        with self._lock:
            return next(self._bodies, None)

    def _sleep_until(self, due: float) -> bool:
        """Whether the time has come; false when everything was stopped before."""
        while (rest := due - time.monotonic()) > 0 and not self._stop.is_set():
            time.sleep(min(rest, _NAP_SECONDS))
        return not self._stop.is_set()

    def _post(self, connection: http.client.HTTPConnection, due: float, body: bytes) -> None:
        headers = {
            "Authorization": f"Bearer {self._sending.token}",
            "Content-Type": "application/json",
            "Prefer": "respond-async",
        }
        try:
            connection.request("POST", PATH, body, headers)
            answer = connection.getresponse()
            accepted = time.monotonic()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()  # the next request opens it again
            return self._fail(type(error).__name__)
        if answer.status != ACCEPTED:
            return self._fail(str(answer.status))
        return self._keep(_Receipt(UUID(answer.headers["Lily-Event-Id"]).bytes, due, accepted))

    def _keep(self, receipt: _Receipt) -> None:
        self._receipts.append(receipt)
        with self._accepted.get_lock():
            self._accepted.value += size_of(UUID(bytes=receipt.batch_id))

    def _fail(self, reason: str) -> None:
        with self._lock:
            self._failed[reason] = self._failed.get(reason, 0) + 1


def _bodies(sending: Sending) -> Iterator[tuple[int, bytes]]:
    batch = sending.schedule.batch
    generator = np.random.default_rng(sending.seed)
    for number in range(sending.schedule.requests):
        assets = generator.integers(0, sending.assets, batch).tolist()
        yield number, table_batch(assets, number * batch)


def _as_arrays(receipts: list[_Receipt]) -> Receipts:
    sizes = [size_of(UUID(bytes=receipt.batch_id)) for receipt in receipts]
    return Receipts(
        b"".join(receipt.batch_id for receipt in receipts),
        np.array(sizes, dtype=np.int64),
        np.array([receipt.due for receipt in receipts], dtype=np.float64),
        np.array([receipt.accepted for receipt in receipts], dtype=np.float64),
    )
