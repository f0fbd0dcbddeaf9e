"""What a supervisor tells the other commands: `run/supervisor.json`, and the lock that proves it lives."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # ships no types

from lily.domain.errors import LilyError
from lily.standalone.files import write_atomically
from lily.standalone.installations import Installation

#: Where `/proc/<pid>/stat` has the start, counted after the name in brackets.
_START_TICKS = 19


class AlreadyRunning(LilyError):
    """Another supervisor holds the data directory."""

    code = "already_running"


@dataclass(frozen=True)
class State:
    """A supervisor and its children. A process is known by its number, `started_at` and `boot`."""

    pid: int
    started_at: float
    phase: str
    port: int = 0
    error: str = ""
    children: dict[str, int] = field(default_factory=dict)
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    boot: str = field(default_factory=lambda: boot_id())

    def is_of(self, pid: int, start: float) -> bool:
        """Whether the process that began then still runs."""
        return self.boot == boot_id() and is_same_process(pid, start)


def write_state(installation: Installation, state: State) -> None:
    write_atomically(installation.state_file, json.dumps(asdict(state), indent=2) + "\n")


def last_state(installation: Installation) -> State | None:
    """What the latest supervisor wrote, whether or not it still runs."""
    try:
        return State(**json.loads(installation.state_file.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def running_state(installation: Installation) -> State | None:
    """The state of the supervisor that runs now."""
    state = last_state(installation)
    return state if state and state.is_of(state.pid, state.started_at) else None


def boot_id() -> str:
    """The run of the machine since it was last started; empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def process_clock() -> float:
    """The time by which processes are told apart: on Linux since its start, as the clock may be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.time()


def started_at(pid: int) -> float:
    """When the process began (`process_clock`), or 0 when there is none."""
    try:
        if sys.platform == "linux":
            ticks = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[_START_TICKS]
            return int(ticks) / os.sysconf("SC_CLK_TCK")
        return float(psutil.Process(pid).create_time())
    except (OSError, psutil.Error):
        return 0.0


def is_same_process(pid: int, start: float) -> bool:
    """Whether the process with this number is the one that began then, and is not just a zombie."""
    try:
        return abs(started_at(pid) - start) < 1 and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@contextlib.contextmanager
def sole_supervisor(installation: Installation) -> Iterator[None]:
    """Hold the data directory; the kernel lets go of it when this process ends, however it ends."""
    with (installation.run / "supervisor.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRunning(f"Lily already runs on {installation.data_dir}") from error
        yield


def end_leftovers(installation: Installation, seconds: float = 10.0) -> None:
    """End what a killed supervisor's guardian has not ended yet, so that ports and locks are free."""
    state = last_state(installation)
    for name, pid in (state.children if state else {}).items():
        if state and state.is_of(pid, float(state.parts[name]["started_at"])):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGQUIT if name == "postgres" else signal.SIGKILL)
            _wait_for_end(pid, seconds)


def _wait_for_end(pid: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
