"""One line on the terminal that tells how far a long download is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

MEGABYTE = 1_000_000


class Progress:
    """An updating line when stderr is a terminal, else a line every ten seconds."""

    def __init__(self, title: str, files: int, size: int) -> None:
        self._title, self._files, self._size = title, files, size
        self._done = self._received = 0
        self._tty = sys.stderr.isatty()
        self._shown_at = 0.0

    def __enter__(self) -> Progress:
        self._show(force=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._show(force=True)
        if self._tty:
            print(file=sys.stderr)

    @contextmanager
    def file(self, _name: str, _size: int) -> Iterator[Callable[[int], None]]:
        """What jgo calls around one download; yields the function that counts received bytes."""
        yield self._receive

    def finish_one(self) -> None:
        self._done += 1
        self._show()

    def waiting(self, reason: str) -> None:
        """Say why nothing moves."""
        lead = "\n" if self._tty else ""
        print(f"{lead}  {reason}", file=sys.stderr, flush=True)

    def _receive(self, count: int) -> None:
        self._received += count
        self._show()

    def _show(self, force: bool = False) -> None:
        now = time.monotonic()
        if not force and now - self._shown_at < (0.2 if self._tty else 10):
            return
        self._shown_at = now
        megabytes = f"{self._received / MEGABYTE:.0f}/{self._size / MEGABYTE:.0f} MB"
        line = f"{self._title} (first run only) … {self._done}/{self._files} files, {megabytes}"
        print(
            f"\r\033[K{line}" if self._tty else line,
            end="" if self._tty else "\n",
            file=sys.stderr,
            flush=True,
        )
