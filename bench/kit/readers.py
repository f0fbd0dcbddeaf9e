"""The independent reader: a process with its own connection that looks at the database and notes the time.

It trusts no time the pipeline wrote: an event is visible when a committed row of it has arrived here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event

import numpy as np
import psycopg

from bench.kit.latencies import Sightings

#: Within a lane rows become visible in the order of `seq`: one query writes them, batch by batch. One value
#: comes back, sixteen bytes to an event, which costs the reader next to nothing.
_LOOK = """
    SELECT max(seq), string_agg(uuid_send(event_id), ''::bytea)
      FROM (SELECT seq, event_id FROM changes
             WHERE lane = 'structural' AND seq > %s ORDER BY seq LIMIT 20000) AS news
"""
_START = "SELECT coalesce(max(seq), 0) FROM changes WHERE lane = 'structural'"
#: The plan is made once, while the table may be empty: it must not be the plan for an empty table.
_PLANS = (
    "SET enable_seqscan = off",
    "SET enable_bitmapscan = off",
    "SET enable_sort = off",
    "SET jit = off",
    "SET plan_cache_mode = force_generic_plan",
)
_ID_BYTES = 16


@dataclass(frozen=True)
class Reading:
    """Where to look, and the pause between two looks."""

    database_url: str
    pause_seconds: float


def read(reading: Reading, stop: Event, seen: Synchronized[int], results: Connection) -> None:
    """Run as a process: look until `stop`, then hand back the sightings."""
    ids: list[bytes] = []
    stamps: list[float] = []
    with psycopg.connect(reading.database_url, autocommit=True) as connection:
        for statement in _PLANS:
            connection.execute(statement)
        last = _last_seq(connection)
        results.send("ready")
        while not stop.is_set():
            newest, news = _look(connection, last)
            if newest is None:
                time.sleep(reading.pause_seconds)
                continue
            stamps.append(time.monotonic())
            ids.append(news)
            last = newest
            seen.value += len(news) // _ID_BYTES
    results.send(_as_arrays(ids, stamps))


def _last_seq(connection: psycopg.Connection) -> int:
    row = connection.execute(_START).fetchone()
    return int(row[0]) if row else 0


def _look(connection: psycopg.Connection, last: int) -> tuple[int | None, bytes]:
    row = connection.execute(_LOOK, (last,), prepare=True, binary=True).fetchone()
    return (row[0], bytes(row[1] or b"")) if row else (None, b"")


def _as_arrays(ids: list[bytes], stamps: list[float]) -> Sightings:
    counts = np.array([len(chunk) // _ID_BYTES for chunk in ids], dtype=np.int64)
    return Sightings(b"".join(ids), np.array(stamps, dtype=np.float64), counts)
