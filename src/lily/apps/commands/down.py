"""`lily down`: stop an installation, and remove it when asked."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from typing import Annotated

import typer

from lily.apps.commands.options import DataDir, say
from lily.domain.errors import MisconfiguredError, Unavailable
from lily.standalone.cache import cache_dir
from lily.standalone.installations import Installation
from lily.standalone.states import State, end_leftovers, is_same_process, running_state, sole_supervisor

STOP_SECONDS = 90.0


def down(
    data_dir: DataDir,
    purge: Annotated[
        bool, typer.Option("--purge", help="Also remove the data directory: all data is lost.")
    ] = False,
) -> None:
    """Stop everything; the data stays unless --purge is given."""
    installation = Installation.at(data_dir)
    running = running_state(installation)
    if running:
        _stop(running)
        say("Lily is stopped.")
    else:
        say(f"Lily does not run on {installation.data_dir}.")
    end_leftovers(installation)
    if purge:
        _purge(installation)


def _stop(running: State) -> None:
    """Ask the supervisor; its own time limits add up to less than ours."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(running.pid, signal.SIGTERM)
    if not _ends(running, STOP_SECONDS):
        os.kill(running.pid, signal.SIGKILL)  # the guardian ends the children
        if not _ends(running, 10):
            raise Unavailable(f"process {running.pid} does not end; end it by hand", pid=running.pid)


def _ends(running: State, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while is_same_process(running.pid, running.started_at):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _purge(installation: Installation) -> None:
    if not installation.data_dir.exists():
        return
    if not installation.env_file.exists():
        raise MisconfiguredError(f"{installation.data_dir} holds no installation; nothing was removed")
    with sole_supervisor(installation):  # whoever it is that runs there, nothing is taken from under them
        shutil.rmtree(installation.data_dir)
    say(f"Removed {installation.data_dir}. Downloads shared by all installations stay in {cache_dir('')}.")
