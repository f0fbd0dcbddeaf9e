"""Records acts for the audit without making the caller wait: a spool on disk, emptied into the chains.

An entry outlives the process when `record` returns. It is in PostgreSQL a fifth of a second later, or as
soon as PostgreSQL is back (ADR 16).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import structlog

from lily.access.audit_spools import Spool, abandoned_spools
from lily.domain.audit import INSTALLATION, AuditEntry, entry_line, parse_line, storable
from lily.domain.errors import LilyError
from lily.repositories.postgres.audit_chains import AuditChains
from lily.repositories.postgres.pool import connection_arguments

__all__ = ["INSTALLATION", "AuditEntry", "AuditTrail"]

FLUSH_SECONDS = 0.2
_RETRY_SECONDS = 1.0
_CLOSE_SECONDS = 10.0
_PIECE_BYTES = 256 * 1024
_SURELY_STORABLE_BYTES = 1000
_TEXTS = ("actor", "acting_as", "address", "action", "resource_kind", "resource_id", "reason", "trace_id")

_log = structlog.get_logger(__name__)


class AuditTrail:
    """The recorder of one process. `record` may be called by any thread."""

    def __init__(self, url: str, key: str, folder: Path) -> None:
        self._url = url
        self._chains = AuditChains(key)
        self._folder = folder
        self._turn = threading.Lock()
        self._spool: Spool | None = None
        self._noted = threading.Event()
        self._closing = threading.Event()

    def record(self, entry: AuditEntry) -> None:
        """Note an act; `Unavailable` when the disk does not take it, and then the act must not happen."""
        line = _line(entry)
        with self._turn:
            if self._spool is None:
                raise RuntimeError("the audit trail is not running")
            self._spool.append(line)
        if not self._noted.is_set():  # asking takes no lock; who takes entries clears it before it looks
            self._noted.set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Take entries and bring them to PostgreSQL while the context is open; at the end, all of them."""
        self._closing.clear()
        self._spool = Spool.create(self._folder)
        thread = threading.Thread(target=self._flush_forever, name="audit-trail", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._closing.set()
            self._noted.set()
            thread.join(_CLOSE_SECONDS)

    def _flush_forever(self) -> None:
        """While PostgreSQL is away, what is noted waits on disk, for the next process if need be."""
        while True:
            try:
                with psycopg.connect(self._url, **connection_arguments()) as connection:
                    for spool in abandoned_spools(self._folder):
                        self._finish(connection, spool)
                    self._flush_until_closed(connection)
                return
            except (psycopg.Error, LilyError, OSError) as error:
                _log.warning("audit_waits", error=str(error))
                if self._closing.wait(_RETRY_SECONDS):
                    return

    def _flush_until_closed(self, connection: psycopg.Connection[Any]) -> None:
        spool = self._spool
        assert spool is not None
        spool.position = None
        while True:
            self._noted.wait()
            closing = self._closing.wait(FLUSH_SECONDS)
            self._noted.clear()
            self._drain(connection, spool)
            if spool.is_long or closing:
                used, spool = spool, self._replace(None if closing else Spool.create(self._folder))
                self._finish(connection, used)
            if spool is None:
                return

    def _replace(self, spool: Spool | None) -> Spool | None:
        with self._turn:
            self._spool = spool
        return spool

    def _finish(self, connection: psycopg.Connection[Any], spool: Spool) -> None:
        """Empty a spool nobody writes to any more, and forget it."""
        self._drain(connection, spool)
        spool.remove()
        self._chains.forget(connection, spool.name)

    def _drain(self, connection: psycopg.Connection[Any], spool: Spool) -> None:
        if spool.position is None:
            spool.position = self._chains.taken(connection, spool.name)
        while piece := spool.read(spool.position, _PIECE_BYTES):
            end = spool.position + len(piece)
            self._chains.add(connection, _parsed(piece), spool.name, end)
            spool.position = end


def record_at_once(url: str, key: str, folder: Path, entry: AuditEntry) -> None:
    """Note an act of a process that ends with it; while PostgreSQL is away it waits for the next process."""
    spool, line = Spool.create(folder), _line(entry)
    spool.append(line)
    chains = AuditChains(key)
    try:
        with psycopg.connect(url, **connection_arguments()) as connection:
            chains.add(connection, [parse_line(line)], spool.name, len(line) + 1)
            spool.remove()
            chains.forget(connection, spool.name)
    except (psycopg.Error, OSError):
        spool.leave()


def _line(entry: AuditEntry) -> bytes:
    try:
        line = entry_line(entry)
    except UnicodeEncodeError:  # half a character
        line = b""
    if line and len(line) < _SURELY_STORABLE_BYTES and b"\\u0000" not in line:
        return line
    texts: dict[str, Any] = {name: storable(getattr(entry, name)) for name in _TEXTS}
    return entry_line(replace(entry, **texts))


def _parsed(piece: bytes) -> list[AuditEntry]:
    entries = []
    for line in piece.split(b"\n")[:-1]:
        try:
            entries.append(parse_line(line))
        except ValueError:  # torn by a crash of the machine; what is left of it is in the log
            _log.error("audit_entry_torn", line=line[:200])
    return entries
