"""What the database says of a run after its end: which events it applied, and how many versions they made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import psycopg

from bench.kit.latencies import Receipts, Sightings, join

_EVENTS = "SELECT string_agg(uuid_send(event_id), ''::bytea) FROM changes WHERE tenant_id = %s"
_VERSIONS = "SELECT count(*), coalesce(sum(version), 0) FROM assets WHERE tenant_id = %s"
_DEAD = "SELECT count(*) FROM dead_letters WHERE tenant_id = %s"
_ID_BYTES = 16


@dataclass(frozen=True)
class Ledger:
    """`lost` events were accepted and never applied. Every event of a run changes its asset, so a version
    more than there are events means that one of them was applied twice."""

    events: int
    assets: int
    versions: int
    lost: int
    dead: int
    lost_mask: np.ndarray

    @property
    def applied_twice(self) -> int:
        return max(0, self.versions - self.events)

    @property
    def without_effect(self) -> int:
        return max(0, self.events - self.versions)


def read_ledger(database_url: str, tenant: str, receipts: Receipts) -> Ledger:
    with psycopg.connect(database_url) as connection:
        ids = bytes(_one(connection, _EVENTS, tenant)[0] or b"")
        assets, versions = _one(connection, _VERSIONS, tenant)
        dead = _one(connection, _DEAD, tenant)[0]
    events = len(ids) // _ID_BYTES
    applied = join(receipts, Sightings(ids, np.zeros(1), np.array([events], dtype=np.int64)))
    return Ledger(events, assets, int(versions), applied.unseen, dead, np.isnan(applied.visible))


def _one(connection: psycopg.Connection, query: str, tenant: str) -> tuple:  # type: ignore[type-arg]
    row = connection.execute(query, (tenant,), binary=True).fetchone()
    assert row is not None  # an aggregate always has one
    return row
