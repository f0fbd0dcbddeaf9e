"""One child process: started, restarted with growing pauses, stopped within its time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from lily.domain.errors import LilyError
from lily.standalone.logfiles import rotate
from lily.standalone.parts import Part
from lily.standalone.states import started_at

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
STEADY_SECONDS = 60.0
#: Between two looks at whether a part serves; some of them cost the gateway a query.
LOOK_SECONDS = 0.15


class Child:
    """A part's process, through all its lives."""

    def __init__(self, part: Part, log_file: Path) -> None:
        self.part = part
        self.log_file = log_file
        self.restarts = 0
        self.ready = False
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._born_at = 0.0
        self._failures = 0
        self._next_start = 0.0
        self._next_look = 0.0

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Prepare and start the process, as the leader of its own group."""
        self.rotate_log()
        self.part.prepare()
        self.ready = False
        self._started_at = time.monotonic()
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self.part.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.part.environment},
                start_new_session=True,
            )
        self._born_at = started_at(self._process.pid)

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def becomes_ready(self) -> bool:
        """True once in each life: at the first look at which the part serves."""
        now = time.monotonic()
        if self.ready or not self.is_alive() or now < self._next_look:
            return False
        self._next_look = now + LOOK_SECONDS
        self.ready = self.part.ready()
        return self.ready

    def bury(self) -> float:
        """Take note of a death, end what is left of its group, and say how long the next life must wait."""
        self._signal_group(signal.SIGKILL)
        if time.monotonic() - self._started_at > STEADY_SECONDS:
            self._failures = 0
        self.ready = False
        self._process = None
        return self._postpone()

    def change_places(self, standby: Child) -> None:
        """Take over the process that stood by, and leave it this part's dead one."""
        mine = (self._process, self._started_at, self._born_at)
        self._process, self._started_at, self._born_at = (
            standby._process,
            standby._started_at,
            standby._born_at,
        )
        standby._process, standby._started_at, standby._born_at = mine
        self.ready = False
        self.part.prepare()

    def revive(self) -> bool:
        """Start again if its pause is over; when that fails, the next attempt waits longer."""
        if self._process is not None or time.monotonic() < self._next_start:
            return False
        self.restarts += 1
        try:
            self.start()
        except (LilyError, OSError):
            self._postpone()
            raise
        return True

    def _postpone(self) -> float:
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**self._failures)
        self._failures += 1
        self._next_start = time.monotonic() + pause
        return pause

    @property
    def is_buried(self) -> bool:
        return self._process is None

    def exit_code(self) -> int | None:
        return self._process.returncode if self._process else None

    def ask_to_stop(self) -> None:
        if self.is_alive() and self._process:
            self._process.send_signal(self.part.stop_signal)

    def stop(self) -> None:
        """Stop in order, or by force when its time is over."""
        self.ask_to_stop()
        if self._process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(self.part.stop_seconds)
            self._signal_group(signal.SIGKILL)
            self._process.wait()

    def rotate_log(self) -> None:
        rotate(self.log_file)

    def describe(self) -> dict[str, Any]:
        """What `status` shows of it."""
        state = "ready" if self.ready else "starting" if self.pid else "restarting"
        return {"state": state, "started_at": self._born_at, "restarts": self.restarts}

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
