"""What the supervisor needs to know about a process it keeps alive."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Part:
    """A process: how to start it, how to tell that it serves, how to stop it.

    `prepare` runs before every start and mends what a crash left behind. `abort_signal` ends the process at
    once when the supervisor itself was killed. A part that `stands_by_for` another runs the same program:
    when that one dies, the two change places.
    """

    name: str
    command: list[str]
    ready: Callable[[], bool]
    prepare: Callable[[], None] = _nothing
    stop_signal: signal.Signals = signal.SIGTERM
    abort_signal: signal.Signals = signal.SIGKILL
    stop_seconds: float = 10.0
    environment: Mapping[str, str] = field(default_factory=dict)
    stands_by_for: str = ""
