"""The installation a benchmark measures: the running one of the data directory, or one of its own."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from lily.apps.commands.token import local_token
from lily.apps.up import health
from lily.domain.errors import Unavailable
from lily.settings import STANDBY_MARKER, Settings, load_settings
from lily.standalone.installations import Installation
from lily.standalone.ports import free_port
from lily.standalone.states import State, running_state

_SETTLE_SECONDS = 180.0
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Platform:
    """An installation that runs, or is about to."""

    data_dir: Path
    port: int
    is_own: bool

    @property
    def state(self) -> State:
        state = running_state(Installation.at(self.data_dir))
        if state is None:
            raise Unavailable(f"the installation on {self.data_dir} does not run any more; see `./lily logs`")
        return state

    @property
    def settings(self) -> Settings:
        return load_settings(self.data_dir)

    @property
    def database_url(self) -> str:
        return self.settings.database.url.get_secret_value()

    def token(self, tenant: str) -> str:
        return local_token(Installation.at(self.data_dir), tenant, "owner", "bench")

    def health(self) -> dict[str, Any]:
        return health(self.port) or {}

    def metrics(self) -> str:
        with _DIRECT.open(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def up(self) -> float:
        """Start it and return when it is healthy; the seconds that took."""
        started = time.monotonic()
        _lily("up", "--detach", "--data-dir", str(self.data_dir), "--port", str(self.port))
        return time.monotonic() - started

    def settle(self) -> float:
        """Return when the pipeline that stands by is warm, too: until then it takes up to a core."""
        started = time.monotonic()
        while self.settings.spark.standby and not self._standby_marker.exists():
            if time.monotonic() - started > _SETTLE_SECONDS:
                raise Unavailable(f"nothing stands by after {_SETTLE_SECONDS:.0f} s; see `./lily logs`")
            time.sleep(0.5)
        return time.monotonic() - started

    def down(self) -> None:
        _lily("down", "--data-dir", str(self.data_dir))
        self._standby_marker.unlink(missing_ok=True)  # it was that of the one that has ended

    @property
    def _standby_marker(self) -> Path:
        return self.data_dir / "run" / STANDBY_MARKER


@contextlib.contextmanager
def platform_of(data_dir: Path) -> Iterator[Platform]:
    """The installation of the data directory if it runs, else a fresh one, stopped and removed again."""
    state = running_state(Installation.at(data_dir))
    if state is not None:
        say(f"Using the installation on {data_dir}.")
        yield Platform(data_dir, state.port, is_own=False)
        return
    with own_platform() as platform:
        say(f"Nothing runs on {data_dir}: starting an installation for this benchmark …")
        say(f"Healthy after {platform.up():.1f} s, settled {platform.settle():.1f} s later.")
        yield platform


@contextlib.contextmanager
def own_platform() -> Iterator[Platform]:
    """A place for an installation that is not started yet; whatever runs there at the end is stopped."""
    signal.signal(signal.SIGTERM, _leave)
    data_dir = Path(tempfile.mkdtemp(prefix="lily-bench-"))
    platform = Platform(data_dir, free_port(), is_own=True)
    try:
        yield platform
    finally:
        platform.down()
        shutil.rmtree(data_dir, ignore_errors=True)


def say(line: str) -> None:
    """Progress; the results alone go to standard output."""
    print(line, file=sys.stderr, flush=True)


def new_tenant() -> str:
    """A tenant of its own for every run, so that its rows can be counted."""
    return f"bench-{time.time_ns() // 1_000_000:x}"


def _lily(*arguments: str) -> None:
    command = [sys.executable, "-m", "lily.apps.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"`lily {arguments[0]}` failed: {done.stderr.strip()[-2000:]}")


def _leave(number: int, _frame: FrameType | None) -> None:
    """Unwind, so that the installation is stopped; the signal may come to process and group."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)
