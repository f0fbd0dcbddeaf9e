"""Follows the leaf lane from outside: when its first batch began, and when rows became visible."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg

QUERY = "assets-leaf"
#: The position is written in the transaction that writes the rows: it is visible exactly when they are.
_POSITION = "SELECT events FROM stream_positions WHERE query = %s"
_ROWS = "SELECT count(*), coalesce(sum(version), 0) FROM assets WHERE tenant_id = %s"


class LeafProgress:
    """Events the lane has applied since this began, with the time each growth was seen."""

    def __init__(self, database_url: str) -> None:
        self.batches: list[tuple[float, int]] = []
        self._connection = psycopg.connect(database_url, autocommit=True)
        self._base = self._position()

    def __enter__(self) -> LeafProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def look(self) -> int:
        """Events visible so far."""
        events = self._position() - self._base
        if events and (not self.batches or events != self.batches[-1][1]):
            self.batches.append((time.monotonic(), events))
        return events

    def rows(self, tenant: str) -> tuple[int, int]:
        """Assets of the tenant, and the versions they have in all."""
        row = self._ask(_ROWS, tenant)
        return int(row[0]), int(row[1])

    def _position(self) -> int:
        row = self._ask(_POSITION, QUERY)
        return int(row[0]) if row else 0

    def _ask(self, query: str, argument: object) -> tuple:  # type: ignore[type-arg]
        return self._connection.execute(query, (argument,)).fetchone() or ()


def first_batch_began(checkpoints: str) -> float:
    """When Spark wrote down the lane's first batch, which it does right before running it."""
    offsets = Path(checkpoints) / QUERY / "offsets" / "0"
    return offsets.stat().st_mtime - time.time() + time.monotonic()
