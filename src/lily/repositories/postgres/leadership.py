"""Who of several equal processes does the work: the one that holds a lock in PostgreSQL.

The others stand by, warm. PostgreSQL lets go of the lock when the leader's connection ends, however that
ended. Two leaders at once, for the moment in which one has lost its connection and not noticed, do no harm:
an event counts once whoever applies it.

The lock is asked for again and again: a statement that waits for it keeps PostgreSQL from vacuuming any row
that has died since.
"""

from __future__ import annotations

import os
import threading
import time

import psycopg
import structlog

_log = structlog.get_logger(__name__)

# Any number will do as long as every process uses the same, and nothing else does.
_LOCK = 0x4C494C5A
_LOOK_SECONDS = 1.0
_ASK_SECONDS = 0.2
#: After a restart of PostgreSQL the old leader asks at once, the others a little later.
_LEADER_PAUSE, _OTHERS_PAUSE = 0.1, 3.0
_REGAIN_SECONDS = 10.0


class Leadership:
    """Asked for in a thread of its own, from `start` on."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ours = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="leadership", daemon=True).start()

    def is_ours(self, within: float = 0.0) -> bool:
        """Whether this process leads, or does so within these seconds."""
        return self._ours.wait(within)

    def wait(self) -> None:
        """Return when this process leads. It then does so until it ends."""
        self._ours.wait()

    def _run(self) -> None:
        while True:
            try:
                with psycopg.connect(self._url, autocommit=True, connect_timeout=5) as connection:
                    self._acquire(connection)
                    self._ours.set()
                    while True:
                        time.sleep(_LOOK_SECONDS)
                        connection.execute("SELECT 1")
            except psycopg.Error as error:
                _log.warning("leadership_interrupted", led=self.is_ours(), error=str(error))
                time.sleep(_LEADER_PAUSE if self.is_ours() else _OTHERS_PAUSE)

    def _acquire(self, connection: psycopg.Connection) -> None:
        deadline = time.monotonic() + _REGAIN_SECONDS
        while connection.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,)).fetchone() != (True,):
            if self.is_ours() and time.monotonic() > deadline:
                _log.error("leadership_lost")
                os._exit(1)
            time.sleep(_LEADER_PAUSE if self.is_ours() else _ASK_SECONDS)
