"""Counts what the tenants of a cell have, some seconds after it changed and never for much of the time."""

from __future__ import annotations

import threading
import time

import psycopg
import structlog

from lily.repositories.postgres.usage import (
    busy_tenants,
    count_usage,
    list_uncounted,
    record_usage,
    write_counted,
)
from lily.settings import Settings

_log = structlog.get_logger(__name__)

_PAUSE_SECONDS = 5.0
#: Counting reads all assets of a tenant; a twentieth of the time was 20 µs per event.
_REST = 100


class UsageCounter:
    """One thread per cell."""

    def __init__(self, settings: Settings, shared: Settings) -> None:
        self._url = settings.database.url.get_secret_value()
        self._shared_url = shared.database.url.get_secret_value()
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="usage", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        pause = _PAUSE_SECONDS
        while not self._stopped.wait(pause):
            began = time.monotonic()
            try:
                self.count()
            except psycopg.Error as error:
                _log.warning("usage_not_counted", error=str(error))
            pause = max(_PAUSE_SECONDS, _REST * (time.monotonic() - began))

    def count(self) -> None:
        """Count the tenants with changes since the last time, and tell the shared cell."""
        with (
            psycopg.connect(self._url, autocommit=True) as here,
            psycopg.connect(self._shared_url, autocommit=True) as shared,
        ):
            spans = list_uncounted(here)
            tenants = set[str]().union(*(busy_tenants(here, span) for span in spans))
            record_usage(shared, count_usage(here, tenants))
            for span in spans:
                write_counted(here, span)
