"""Applies the model's events to a real PostgreSQL as the pipeline would, and reads back what came of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import psycopg
import pyarrow as pa
from psycopg.rows import dict_row

from kit.model import Change, Event, Row
from lily.domain.assets import Field, Lane, Outcome
from lily.pipeline.staging import SCHEMA
from lily.repositories.postgres.applier import Applier, Batch

TENANT = "acme"


def stage(events: Sequence[Event], tenant: str = TENANT) -> pa.Table:
    """The events as the decoded records of one partition, in this order."""
    rows = [_staged(event, offset, tenant) for offset, event in enumerate(events)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _staged(event: Event, offset: int, tenant: str) -> Row:
    values = {str(name.name).lower(): value for name, value in event.said.items()}
    metadata = event.said.get(Field.METADATA)
    return values | {
        "topic": "made-by-the-test",
        "partition": 0,
        "offset": offset,
        "event_id": str(event.event_id),
        "tenant_id": tenant,
        "asset_id": event.asset_id,
        "event_time": event.event_time,
        "received_at": event.event_time,
        "created_at": event.created_at,
        "actor": "ada",
        "expected_version": event.expected_version,
        "fields": event.mask,
        "metadata": None if metadata is None else json.dumps(metadata),
    }


def batch_of(size: int, batch_id: int, lane: Lane = Lane.STRUCTURAL, dead: int = 0) -> Batch:
    return Batch(f"assets-{lane.value}", lane, batch_id, {"0": size}, size, dead, None)


class Catalog:
    """A database with the applier that writes it and a connection that reads it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.applier = Applier(url)
        self.connection = psycopg.connect(url, autocommit=True, row_factory=dict_row)
        self.connection.execute("SET timezone = 'UTC'")
        self._batches = 0

    def close(self) -> None:
        self.applier.close()
        self.connection.close()

    def apply(self, *events: Event, tenant: str = TENANT, lane: Lane = Lane.STRUCTURAL) -> None:
        """All of these as one batch."""
        self._batches += 1
        self.applier.apply_table(batch_of(len(events), self._batches, lane), stage(events, tenant))

    def fetch(self, query: str, *parameters: Any) -> list[Row]:
        return self.connection.execute(query.encode(), parameters).fetchall()

    def rows(self, tenant: str = TENANT) -> dict[str, Row]:
        """Every stored row, whole, by asset id."""
        rows = self.fetch("SELECT * FROM assets WHERE tenant_id = %s", tenant)
        return {row.pop("asset_id"): row for row in rows if row.pop("tenant_id")}

    def row(self, asset_id: str) -> Row:
        return self.rows()[asset_id]

    def shown(self, asset_id: str) -> Any:
        """The asset as every interface shows it; None when it is not visible."""
        query = "SELECT asset_json(a)::json AS shown FROM assets a WHERE tenant_id = %s AND asset_id = %s"
        return self.fetch(query, TENANT, asset_id)[0]["shown"]

    def changes(self, tenant: str = TENANT) -> list[Change]:
        """What every event did, in the order they were applied."""
        query = "SELECT event_id, outcome, version, fields FROM changes WHERE tenant_id = %s ORDER BY seq"
        return [
            Change(row["event_id"], Outcome(row["outcome"]), row["version"], row["fields"])
            for row in self.fetch(query, tenant)
        ]

    def outcomes(self) -> list[str]:
        return [change.outcome.value for change in self.changes()]
