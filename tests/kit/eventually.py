"""Waiting for what will come true, instead of sleeping and hoping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_PAUSE_SECONDS = 0.05


def eventually(check: Callable[[], T], within: float = 30.0, ignoring: tuple[type[Exception], ...] = ()) -> T:
    """The first truthy result of `check`. An AssertionError in it, or one of `ignoring`, means: not yet.

    After `within` seconds the last of these is raised, or an AssertionError with the last result.
    """
    deadline = time.monotonic() + within
    while True:
        problem: Exception
        try:
            if result := check():
                return result
            problem = AssertionError(f"still {result!r} after {within} s")
        except (AssertionError, *ignoring) as error:
            problem = error
        if time.monotonic() > deadline:
            raise problem
        time.sleep(_PAUSE_SECONDS)
