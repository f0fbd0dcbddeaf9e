"""Threads that follow what batches have applied: each goes on until it is stopped, whatever interrupts it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

_log = structlog.get_logger(__name__)

_RETRY_SECONDS = 1.0


@dataclass(frozen=True)
class Follower:
    """Does `follow`, which returns when `stopped` is set, and begins anew when one of these errors ends it.

    Any other error takes the process down: a follower that ends in silence would let its work pile up.
    """

    kind: str
    follow: Callable[[], None]
    interrupted_by: tuple[type[Exception], ...]
    lane: str = ""
    nice: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        name = "-".join(filter(None, (self.kind, self.lane)))
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        if self.nice and hasattr(os, "setpriority"):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self.nice)
        while not self.stopped.is_set():
            try:
                self.follow()
            except self.interrupted_by as error:
                _log.warning(f"{self.kind}_interrupted", lane=self.lane, error=str(error))
                self.stopped.wait(_RETRY_SECONDS)
            except BaseException:
                _log.exception(f"{self.kind}_failed", lane=self.lane)
                os._exit(1)
