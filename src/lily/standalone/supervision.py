"""Keeps an installation's processes alive: starts them together, restarts the dead, stops them in order."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from lily.domain.errors import LilyError, Unavailable
from lily.standalone.children import Child
from lily.standalone.guardian import Guardian
from lily.standalone.installations import Installation
from lily.standalone.logfiles import tail
from lily.standalone.parts import Part
from lily.standalone.states import State, started_at, write_state

START_SECONDS = 170.0
#: A part that dies this often before it ever served will not heal by itself.
HOPELESS_RESTARTS = 4
TICK_SECONDS = 0.1

Announce = Callable[[str, str], None]


class Stopped(Exception):
    """A stop was requested while parts were starting."""


def _silently(_name: str, _event: str) -> None:
    return None


class Supervisor:
    """The children of one installation. `announce(part, event)` hears of every start, death and recovery."""

    def __init__(self, installation: Installation, announce: Announce = _silently, port: int = 0) -> None:
        self.children: dict[str, Child] = {}
        self.stop_requested = threading.Event()
        self._installation = installation
        self._announce = announce
        self._port = port
        self.phase, self._error = "starting", ""
        self._identity = (os.getpid(), started_at(os.getpid()))
        self._published: State | None = None
        self._guardian = Guardian()
        self._guarding = threading.Lock()

    def start(self, parts: Sequence[Part]) -> None:
        """Start these parts in parallel and return when all of them serve."""
        self.add(parts)
        self.await_ready(parts)

    def await_ready(self, parts: Sequence[Part]) -> None:
        """Return when all of these parts, started before, serve."""
        awaited = [self.children[part.name] for part in parts]
        deadline = time.monotonic() + START_SECONDS
        while not all(child.ready for child in awaited):
            self.tick()
            self._give_up_if_hopeless(awaited, deadline)
            if self.stop_requested.wait(TICK_SECONDS / 2):
                raise Stopped

    def add(self, parts: Sequence[Part]) -> None:
        """Start these parts in parallel and do not wait until they serve."""
        fresh = [Child(part, self._installation.log(part.stands_by_for or part.name)) for part in parts]
        self.children.update({child.part.name: child for child in fresh})
        with ThreadPoolExecutor(max(1, len(fresh))) as pool:
            list(pool.map(self._start, fresh))

    def run(self, seconds: float = math.inf) -> None:
        """Keep everything alive until a stop is requested, or for so long."""
        self.enter("running")
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self.stop_requested.wait(TICK_SECONDS):
            self.tick()

    def tick(self) -> None:
        """Look once at every child: bury the dead, revive those whose pause is over, notice readiness."""
        for child in self.children.values():
            self._look_at(child)
        self._publish()

    def enter(self, phase: str, error: str = "") -> None:
        """Tell the other commands in which phase the installation is."""
        self.phase, self._error = phase, error
        self._publish()

    def stop(self) -> None:
        """Stop everything, in the reverse of the order in which the parts were given."""
        for child in reversed(self.children.values()):
            child.stop()
            self._announce(child.part.name, "stopped")
        self.children.clear()
        self._guardian.dismiss()

    def _start(self, child: Child) -> None:
        self._announce(child.part.name, "starting")
        child.start()
        self._guard()

    def _look_at(self, child: Child) -> None:
        if child.is_buried:
            self._revive(child)
        elif not child.is_alive():
            self._look_at_dead(child)
        elif child.becomes_ready():
            self._announce(child.part.name, "ready")
        child.rotate_log()

    def _look_at_dead(self, child: Child) -> None:
        code, name = child.exit_code(), child.part.name
        standby = next((c for c in self.children.values() if c.part.stands_by_for == name), None)
        if standby and standby.is_alive():
            child.change_places(standby)
            self._announce(name, f"ended with {code}; the one that stood by takes over")
            child = standby
        pause = child.bury()
        self._announce(child.part.name, f"ended with {code}; restart in {pause:.1f} s")

    def _revive(self, child: Child) -> None:
        leader = self.children.get(child.part.stands_by_for)
        if leader is not None and not leader.ready:
            return  # whoever took over needs the processor more
        try:
            if child.revive():
                self._guard()
                self._announce(child.part.name, "restarted")
        except (LilyError, OSError) as error:  # one part's trouble must not take the others down
            self._announce(child.part.name, f"cannot be restarted yet: {error}")

    def _guard(self) -> None:
        with self._guarding:  # parts start in parallel; the last list must be the complete one
            living = [child for child in self.children.values() if child.pid]
            self._guardian.watch({child.pid: child.part.abort_signal.name[3:] for child in living})

    def _publish(self) -> None:
        children = {name: child.pid for name, child in self.children.items() if child.pid}
        parts = {name: child.describe() for name, child in self.children.items()}
        state = State(*self._identity, self.phase, self._port, self._error, children, parts)
        if state != self._published:
            with contextlib.suppress(OSError):  # a full disk hides the state, but must not stop anything
                write_state(self._installation, state)
                self._published = state

    def _give_up_if_hopeless(self, fresh: Sequence[Child], deadline: float) -> None:
        for child in fresh:
            late = time.monotonic() > deadline and not child.ready
            if late or (child.restarts >= HOPELESS_RESTARTS and not child.ready):
                name, log = child.part.name, child.log_file
                raise Unavailable(f"{name} does not start; the end of {log}:\n{tail(log)}", component=name)
