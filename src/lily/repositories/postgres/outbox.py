"""Reads what a lane's batches have left to tell, in order, and remembers how far that got."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import psycopg

from lily.domain.assets import Lane
from lily.repositories.postgres.queries import load

_SQL = load("relay.sql")


class Told(NamedTuple):
    """One thing to tell; `data` is None when the row only moves the position on."""

    seq: int
    tenant_id: str
    subject: str
    event_id: str
    traceparent: str
    at: datetime
    actor: str
    data: str | None


@dataclass(frozen=True)
class Outbox:
    """A lane's rows of one table (`changes` or `dead_letters`)."""

    name: str
    lane: Lane
    query: str

    @property
    def relay(self) -> str:
        return f"{self.name}-{self.lane.value}"

    def position(self, connection: psycopg.Connection) -> int:
        row = connection.execute(_SQL["read_position"], {"relay": self.relay}).fetchone()
        return int(row[0]) if row else 0

    def read(self, connection: psycopg.Connection, after: int, most: int) -> Sequence[Told]:
        """The next rows. A lane has one writer, so a later row never appears before an earlier one."""
        wanted = {"lane": self.lane.value, "after": after, "most": most}
        return [Told(*row) for row in connection.execute(_SQL[self.query], wanted)]

    def advance(self, connection: psycopg.Connection, seq: int) -> None:
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
