"""Every applied write is in the audit, once, whoever forgot to note it before."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg

from kit.events import event, purging, table
from kit.staging import Catalog
from lily.domain.assets import Lane
from lily.domain.event_ids import members, new_batch_id
from lily.pipeline.write_audit import WriteAudit
from lily.repositories.postgres.audit_verification import verify_chains
from lily.settings import Settings


def follow(catalog: Catalog, settings: Settings, lane: Lane = Lane.STRUCTURAL) -> None:
    with psycopg.connect(catalog.url, autocommit=True) as connection:
        WriteAudit(settings, settings, lane).catch_up(connection, connection)


def entries(catalog: Catalog) -> list[dict[str, Any]]:
    return catalog.fetch("SELECT * FROM audit WHERE tenant_id = 'acme' ORDER BY seq")


def single(asset_id: str = "orders", **said: Any) -> Any:
    return table(asset_id, event_id=new_batch_id(1), **said)


def test_a_write_is_told_with_actor_trace_asset_and_outcome(catalog: Catalog, settings: Settings) -> None:
    written = single()
    catalog.apply(written)
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    catalog.connection.execute("UPDATE changes SET traceparent = %s", (trace,))
    follow(catalog, settings)
    (entry,) = entries(catalog)
    assert {name: entry[name] for name in ("actor", "action", "resource_kind", "resource_id", "reason")} == {
        "actor": "ada",
        "action": "apply",
        "resource_kind": "asset",
        "resource_id": "orders",
        "reason": "created",
    }
    assert entry["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert (entry["event_id"], entry["events"]) == (written.event_id, 1)


def test_a_batch_is_one_entry_that_counts_what_it_did(catalog: Catalog, settings: Settings) -> None:
    batch = new_batch_id(1, 700)
    catalog.apply(single("asset-1"))
    catalog.apply(
        *(
            table(f"asset-{n}", n, asset_name=f"Asset {n}", event_id=id_)
            for n, id_ in enumerate(members(batch))
        )
    )
    follow(catalog, settings)
    told = [(entry["event_id"], entry["events"], entry["reason"]) for entry in entries(catalog)]
    assert told[1:] == [(batch, 700, "699 created, 1 updated")]


def test_what_was_told_is_not_told_again(catalog: Catalog, settings: Settings) -> None:
    catalog.apply(single())
    follow(catalog, settings)
    follow(catalog, settings)
    catalog.apply(single("customers"), purging("orders", 9))
    follow(catalog, settings)
    told = [entry["resource_id"] for entry in entries(catalog)]
    assert (told[0], sorted(told[1:])) == ("orders", ["customers", "orders"])


def test_a_replay_that_applies_everything_again_adds_nothing(catalog: Catalog, settings: Settings) -> None:
    half = list(members(new_batch_id(5, 10)))
    events = [single(), single("customers"), *(table(f"a-{n}", event_id=id_) for n, id_ in enumerate(half))]
    catalog.apply(*events[:7])
    follow(catalog, settings)
    catalog.apply(*events[7:])
    follow(catalog, settings)
    before = entries(catalog)
    assert sorted(entry["events"] for entry in before) == [1, 1, 5, 5]
    catalog.connection.execute("TRUNCATE assets, changes")
    catalog.apply(*events)
    follow(catalog, settings)
    assert entries(catalog) == before


def test_each_lane_is_told_and_the_chain_is_whole(catalog: Catalog, settings: Settings) -> None:
    catalog.apply(single())
    catalog.apply(event("orders.id", event_id=new_batch_id(2), asset_type="column"), lane=Lane.LEAF)
    for lane in Lane:
        follow(catalog, settings, lane)
    (report,) = verify_chains(catalog.url, settings.audit.key.get_secret_value())
    assert (report.findings, report.head.seq) == ([], 2)


def test_batch_functions_agree_with_the_layout_of_event_ids(catalog: Catalog) -> None:
    for size in (1, 2, 64, 65, 1000, 1024):
        batch = new_batch_id(1_700_000_000_000, size)
        for member in (batch, list(members(batch))[-1]):
            (row,) = catalog.fetch("SELECT batch_of(%s) AS batch, batch_size(%s) AS size", member, member)
            assert row == {"batch": UUID(int=batch.int), "size": size}
