"""Whose changes are read, and that one tenant's trouble is no other's."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast
from uuid import uuid4

from lily.domain.changes import Change
from lily.domain.subscriptions import Match
from lily.log.changes import ChangeFeed, ChangeRecord, Ends
from lily.repositories.postgres.deliveries import DeliveryQueues
from lily.targets.opened import OpenTargets
from lily.targets.telling import Telling


def changed(tenant_id: str) -> ChangeRecord:
    said = {"tenant_id": tenant_id, "asset_id": "orders", "event_id": str(uuid4()), "outcome": "updated"}
    value = json.dumps(said).encode()
    return ChangeRecord("metadata-changes", 0, 0, "io.lily.asset.changed.v1", tenant_id, value)


class Told(list[ChangeRecord]):
    """These records, as they are skimmed."""

    @property
    def tenants(self) -> set[str]:
        return {record.tenant_id for record in self}

    @property
    def ends(self) -> Ends:
        return {(record.topic, record.partition): record.offset + 1 for record in self}

    def records(self, tenants: Collection[str]) -> list[ChangeRecord]:
        return [record for record in self if record.tenant_id in tenants]


class Log:
    """Tells these records once, and whether they were committed."""

    def __init__(self, records: list[ChangeRecord]) -> None:
        self._records = records
        self.committed = threading.Event()

    def skim(self, _seconds: float, _most: int) -> Told:
        records, self._records = self._records, []
        if not records:
            self.committed.wait(0.05)
        return Told(records)

    def commit(self, _ends: Ends) -> None:
        self.committed.set()


class Matching:
    """Has subscriptions of `acme`, none of `quiet`, and of `broken` rules that cannot be read."""

    def __init__(self) -> None:
        self.looked_at: list[str] = []

    async def listens_to(self, tenant_id: str) -> bool:
        if tenant_id == "broken":
            raise ValueError("no such effect")
        return tenant_id == "acme"

    async def matching(self, changes: Sequence[Change]) -> Sequence[Match]:
        if any(change.tenant_id == "broken" for change in changes):
            raise ValueError("no such effect")
        self.looked_at += [change.tenant_id for change in changes]
        return []


class NoQueues:
    async def tell(self, _matches: Sequence[Match], _deliveries: Callable[..., Any]) -> int:
        return 0


def test_a_tenant_whose_rules_cannot_be_read_keeps_no_other_from_being_told() -> None:
    log, matching = Log([changed("broken"), changed("acme"), changed("quiet"), changed("")]), Matching()
    telling = Telling(
        cast("ChangeFeed", log), matching, cast("DeliveryQueues", NoQueues()), cast("OpenTargets", None)
    )

    async def run() -> None:
        running = asyncio.create_task(telling.run())
        await asyncio.to_thread(log.committed.wait, 5)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())
    assert log.committed.is_set()
    assert matching.looked_at == ["acme"]
