"""Reads what a lane's batches have left to tell, in order, and remembers how far that got."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import psycopg
from psycopg.errors import ProgramLimitExceeded
from psycopg.rows import tuple_row
from psycopg.types.string import ByteaBinaryLoader

from lily.domain.assets import Lane
from lily.repositories.postgres.queries import load

_SQL = load("relay.sql")
# Every query goes along one index. PostgreSQL prefers to plan each page anew, which takes 325 µs.
PLANS = (
    "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off -c enable_sort=off"
    " -c jit=off"
)
#: Rows as a page of them, by the name of their query.
_PAGES = {name: _SQL["read_page"].format(rows=rows) for name, rows in _SQL.items()}

#: One thing to tell, as it goes onto the log: tenant, actor, traceparent, subject, event id, time and data,
#: which is empty when the row only moves the position on.
Told = tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes]


class Page(NamedTuple):
    """The next things to tell, the place of the last of them, and whether there was no more."""

    told: Iterator[Told]
    seq: int
    is_last: bool


@dataclass(frozen=True)
class Outbox:
    """A lane's rows of one table (`changes` or `dead_letters`)."""

    name: str
    lane: Lane
    query: str

    @property
    def relay(self) -> str:
        return f"{self.name}-{self.lane.value}"

    def position(self, connection: psycopg.Connection[Any]) -> int:
        row = connection.execute(_SQL["read_position"], {"relay": self.relay}).fetchone()
        return int(row[0]) if row else 0

    def read(self, connection: psycopg.Connection[Any], after: int, most: int) -> Page:
        """At most so many, up to the end of the lane: before it no row appears any more."""
        wanted = {"lane": self.lane.value, "after": after, "most": most}
        with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
            # Text is sent on as it comes: to decode and encode it again took as long as to fetch it.
            cursor.adapters.register_loader("text", ByteaBinaryLoader)
            try:
                [(seq, size, *columns, data)] = cursor.execute(_PAGES[self.query], wanted).fetchall()
            except ProgramLimitExceeded:  # more than a gigabyte
                if most == 1:
                    raise
                return self.read(connection, after, most // 8 or 1)
        told = zip(*columns, data.split(b"\n"), strict=True) if size else iter(())
        return Page(cast("Iterator[Told]", told), seq, is_last=size < most)

    def advance(self, connection: psycopg.Connection[Any], seq: int) -> None:
        connection.execute(_SQL["write_position"], {"relay": self.relay, "seq": seq})


def changes_of(lane: Lane) -> Outbox:
    """What changed by a lane; what is said about edges and tags changes the effective tags of assets."""
    query = "read_tag_changes" if lane is Lane.LINEAGE else "read_changes"
    return Outbox("changes", lane, query)


def incidents_of(lane: Lane) -> tuple[Outbox, ...]:
    """What happened to incidents, by each of the two who write it."""
    return (
        Outbox("incident-steps", lane, "read_incident_steps"),
        Outbox("incident-attachments", lane, "read_incident_attachments"),
    )


def dead_letters_of(lane: Lane) -> Outbox:
    return Outbox("dead-letters", lane, "read_dead_letters")
