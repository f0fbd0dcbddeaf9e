"""Spools: files of entries that are noted and not yet in PostgreSQL, one per process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from lily.domain.errors import Unavailable

#: A spool that was ever longer is replaced once it is empty.
LONG_BYTES = 16 * 1024 * 1024
_SUFFIX = ".spool"


class Spool:
    """An open file only its process appends to; the lock on it ends with the process, however that ends."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        #: Up to where its entries are in PostgreSQL; None when that must be asked.
        self.position: int | None = None

    @classmethod
    def create(cls, folder: Path) -> Spool:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"{uuid4().hex}{_SUFFIX}"
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return cls(path, descriptor)

    @property
    def name(self) -> str:
        return f"spool-{self._path.stem}"

    @property
    def is_long(self) -> bool:
        return os.fstat(self._descriptor).st_size > LONG_BYTES

    def append(self, line: bytes) -> None:
        """Add a line; it outlives this process when this returns."""
        whole = line + b"\n"
        try:
            written = os.write(self._descriptor, whole)
        except OSError as error:
            raise Unavailable(f"the audit cannot be written ({error.strerror}); nothing was done") from error
        if written != len(whole):  # the disk is full: end the torn line, so that the next one is whole
            os.truncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
            raise Unavailable("the audit cannot be written (no space left); nothing was done")

    def read(self, position: int, most: int) -> bytes:
        """Whole lines from there on, about that many bytes; nothing at the end."""
        piece = os.pread(self._descriptor, most, position)
        return piece[: piece.rfind(b"\n") + 1]

    def leave(self) -> None:
        """Let another process finish it."""
        os.close(self._descriptor)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def abandoned_spools(folder: Path) -> Iterator[Spool]:
    """The spools of processes that are gone, each locked for the caller to finish."""
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        try:
            descriptor = os.open(path, os.O_RDWR)
        except (FileNotFoundError, PermissionError):  # just finished by another process, or of another user
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            still_there = path.exists()
        except BlockingIOError:
            still_there = False
        if still_there:
            yield Spool(path, descriptor)
        else:
            os.close(descriptor)
