"""The logs of an installation's components."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

LARGEST_LOG = 50_000_000
#: How much of a log's end is looked at for its last lines.
TAIL_BYTES = 1_000_000


def tail(log: Path, lines: int = 15) -> str:
    """The last lines; empty when there is no log."""
    if not log.exists():
        return ""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - TAIL_BYTES))
        return "\n".join(stream.read().decode(errors="replace").splitlines()[-lines:])


def rotate(log: Path) -> None:
    """Keep one old log when it has grown too large; its writer goes on appending to the emptied file."""
    if log.exists() and log.stat().st_size > LARGEST_LOG:
        shutil.copyfile(log, log.with_suffix(".log.1"))
        os.truncate(log, 0)


def follow(log: Path, pause: float = 0.3) -> Iterator[str]:
    """What is appended from now on, for ever; survives a rotation."""
    position = log.stat().st_size if log.exists() else 0
    while True:
        size = log.stat().st_size if log.exists() else 0
        position = 0 if size < position else position
        if size > position:
            with log.open("rb") as stream:
                stream.seek(position)
                fresh = stream.read()
            position += len(fresh)
            yield fresh.decode(errors="replace")
        time.sleep(pause)
