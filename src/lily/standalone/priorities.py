"""Who goes first where all parts share one machine: whoever waits for an answer."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_NICE = 2
_AUTOGROUP = Path("/proc/self/autogroup")


def give_way() -> None:
    """Let other parts go before this process and those it started, if they are a session of their own.

    Linux shares the processor between sessions first and looks at niceness only within each, so that the
    session itself is made nice; other systems know the niceness of processes alone.
    """
    if os.getsid(0) != os.getpid():
        return
    with suppress(OSError):
        if os.getpriority(os.PRIO_PGRP, 0) < _NICE:
            os.setpriority(os.PRIO_PGRP, 0, _NICE)
        shown = _AUTOGROUP.read_text(encoding="ascii").split()
        if shown and int(shown[-1]) < _NICE:  # shows nothing where sessions are not looked at
            _AUTOGROUP.write_text(str(_NICE), encoding="ascii")
