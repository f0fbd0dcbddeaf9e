"""Waits for a condition, for a limited time."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], bool], seconds: float, what: str, pause: float = 0.05) -> None:
    """Return as soon as it holds; a `TimeoutError` that says what was waited for otherwise."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(pause)
