"""Whatever is reported in whatever order, in whatever batches: incidents are what the oracle says."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from kit.events import at, next_id
from kit.incident_model import Incident, KnownAsset, incidents
from kit.lineage_model import Said
from kit.lineage_runs import Graph, Piece
from kit.model import Event, purge
from lily.domain.assets import Field, Lane
from lily.domain.changes import read_change
from lily.log.envelope import EventType
from lily.repositories.postgres.outbox import incidents_of

#: Histories; `LILY_INCIDENT_HISTORIES=5000` for a long run.
HISTORIES = int(os.environ.get("LILY_INCIDENT_HISTORIES", "100"))
SIDE_BY_SIDE = 50
_NAMES = ("orders", "Shop.Orders", "shop.customers", "customers", "t1")
_SOURCES = (None, None, "warehouse", "lake")


@pytest.fixture
def graph(database: str) -> Iterator[Graph]:
    opened = Graph(database)
    yield opened
    opened.close()


def step(incident: str = "i", minute: int = 0, comment: str = "", first: Any = None, **said: Any) -> Said:
    body = {"step": "updated", "said": said, "first": first or {}} | ({"comment": comment} if comment else {})
    return Said(next_id(), at(minute), "incident", True, "api", incident, body=body)


def table(asset_id: str, minute: int, **said: Any) -> Event:
    fields = {"asset_name": asset_id, "asset_type": "table"} | said
    return Event(
        next_id(), at(minute), asset_id, {Field[name.upper()]: value for name, value in fields.items()}
    )


def random_step(dice: random.Random) -> Said:
    said: dict[str, Any] = {}
    if dice.random() < 0.5:
        said["status"] = dice.choice(("open", "acknowledged", "resolved"))
    if dice.random() < 0.3:
        said["severity"] = dice.choice(("SEV-1", "SEV-2", None))
    if dice.random() < 0.3:
        said["owner"] = dice.choice(("ada", "bob", None))
    if dice.random() < 0.5:
        said["names"] = dice.sample(_NAMES, dice.randint(1, 3))
        said["data_source"] = dice.choice(_SOURCES)
    first = {
        name: "open" if name == "status" else "first" for name in ("status", "title") if name not in said
    }
    is_opening = dice.random() < 0.3
    return step(
        dice.choice("ij"),
        dice.randint(0, 30),
        "why" * (dice.random() < 0.2),
        first if is_opening else None,
        **said,
    )


def random_asset(dice: random.Random) -> Event:
    asset_id = dice.choice(("t1", "t2", "t3"))
    if dice.random() < 0.1:
        return purge(next_id(), at(dice.randint(0, 30)), asset_id)
    said: dict[str, Any] = {"data_source": dice.choice(("warehouse", "lake"))}
    if dice.random() < 0.7:
        said["external_id"] = dice.choice(("shop.orders", "shop.customers", None))
    if dice.random() < 0.6:
        said["asset_name"] = dice.choice(("Orders", "customers"))
    if dice.random() < 0.3:
        said["is_deleted"] = dice.choice((True, False, None))
    if dice.random() < 0.1:
        said["asset_type"] = "column"
    return table(asset_id, dice.randint(0, 30), **said)


def history(seed: int) -> list[Piece]:
    dice = random.Random(seed)
    makers = (random_step, random_step, random_asset)
    said: Piece = [dice.choice(makers)(dice) for _ in range(dice.randint(2, 14))]
    said += dice.sample(said, len(said) // 4)
    dice.shuffle(said)
    cuts = sorted(dice.randint(0, len(said)) for _ in range(2))
    return [said[: cuts[0]], said[cuts[0] : cuts[1]], said[cuts[1] :]]


def found(graph: Graph, tenant: str) -> dict[str, Incident]:
    rows = graph.connection.execute(
        "SELECT incident_id, said, opened_at, updated_at, asset_id FROM incidents WHERE tenant_id = %s",
        (tenant,),
    )
    return {row[0]: Incident(*row[1:]) for row in rows}


def known_assets(graph: Graph, tenant: str) -> list[KnownAsset]:
    """As PostgreSQL has them: what events mean for assets is another test's claim."""
    rows = graph.connection.execute(
        "SELECT asset_id, asset_name, asset_type, external_id, data_source, coalesce(is_deleted, false)"
        "  FROM assets WHERE tenant_id = %s AND asset_name IS NOT NULL AND asset_type IS NOT NULL",
        (tenant,),
    )
    return [KnownAsset(*row) for row in rows]


def test_incidents_are_what_was_said_in_any_order_and_about_the_asset_that_is_there(graph: Graph) -> None:
    for start in range(0, HISTORIES, SIDE_BY_SIDE):
        histories = {f"tenant-{seed}": history(seed) for seed in range(start, start + SIDE_BY_SIDE)}
        for turn in range(3):
            graph.apply({tenant: pieces[turn] for tenant, pieces in histories.items()})
            for tenant, pieces in histories.items():
                steps = [said for piece in pieces[: turn + 1] for said in piece if isinstance(said, Said)]
                assert found(graph, tenant) == incidents(steps, known_assets(graph, tenant)), (tenant, turn)


def test_what_is_told_ends_in_what_is_there(graph: Graph) -> None:
    """Who follows the changes of an incident knows it as it is, its asset included."""
    histories = {f"tenant-{seed}": history(seed) for seed in range(SIDE_BY_SIDE)}
    for turn in range(3):
        graph.apply({tenant: pieces[turn] for tenant, pieces in histories.items()})
    rows = graph.connection.execute(
        "SELECT DISTINCT ON (tenant_id, incident_id) tenant_id, incident_id, asset_id, incident ->> 'status',"
        " incident ->> 'owner' FROM incident_changes ORDER BY tenant_id, incident_id, seq DESC"
    ).fetchall()
    state = graph.connection.execute(
        "SELECT tenant_id, incident_id, asset_id, status, owner FROM incidents"
    ).fetchall()
    assert sorted(rows) == sorted(state)
    assert len(rows) > SIDE_BY_SIDE


def outcomes(graph: Graph) -> list[tuple[str, str | None]]:
    query = "SELECT outcome, asset_id FROM incident_changes ORDER BY seq"
    return [(row[0], row[1]) for row in graph.connection.execute(query)]


def test_every_step_that_makes_a_difference_is_told_once(graph: Graph) -> None:
    opened = step(minute=1, first={"status": "open"}, title="rows missing", names=["orders"])
    piece: Piece = [
        opened,
        step(minute=2, status="acknowledged"),
        step(minute=3, owner="ada"),
        step(minute=4, comment="looking"),
        step(minute=5, status="resolved"),
        step(minute=6, status="open"),
        step(minute=7, severity="SEV-1"),
        step(minute=7, severity="SEV-1"),
        step(minute=2, status="resolved"),
    ]
    graph.apply({"acme": [*piece, opened]})
    words = ("opened", "acknowledged", "assigned", "commented", "resolved", "reopened", "updated")
    assert outcomes(graph) == [(word, None) for word in words]


def test_an_incident_is_held_until_its_asset_comes_and_told_when_it_is_attached(graph: Graph) -> None:
    graph.apply({"acme": [step(names=["SHOP.orders"])]})
    graph.apply({"other": [table("o", 1, external_id="shop.orders")]})
    assert outcomes(graph) == [("opened", None)]
    graph.apply({"acme": [table("o", 1, external_id="shop.orders")]})
    assert outcomes(graph) == [("opened", None), ("attached", "o")]
    graph.apply({"acme": [table("o", 2, external_id="shop.others")]})
    assert outcomes(graph)[2:] == [("updated", None)]


def test_a_name_that_several_assets_have_leads_to_none(graph: Graph) -> None:
    graph.apply({"acme": [table("o", 1, asset_name="orders"), table("p", 1, asset_name="Orders")]})
    graph.apply({"acme": [step(names=["orders"])]})
    assert outcomes(graph) == [("opened", None)]
    graph.apply({"acme": [table("p", 2, asset_name="Orders", is_deleted=True)]})
    assert outcomes(graph)[1:] == [("attached", "o")]


def test_a_beginning_that_is_reported_late_undoes_nothing(graph: Graph) -> None:
    graph.apply({"acme": [step(minute=1, status="resolved", feedback="fixed")]})
    graph.apply({"acme": [step(minute=2, first={"status": "open"}, title="rows missing")]})
    [(status, title)] = graph.connection.execute("SELECT status, said ->> 'title' FROM incidents").fetchall()
    assert (status, title) == ("resolved", "rows missing")
    assert [outcome for outcome, _ in outcomes(graph)] == ["resolved", "updated"]


def test_what_the_relay_reads_is_a_change_that_subscribers_understand(graph: Graph) -> None:
    graph.apply(
        {"acme": [step(first={"status": "open"}, title="rows missing", names=["orders"], severity="SEV-1")]}
    )
    graph.apply({"acme": [table("orders", 1)]})
    told = [row for outbox in incidents_of(Lane.LINEAGE) for row in outbox.read(graph.connection, 0, 10).told]
    changes = [read_change(EventType.INCIDENT_CHANGED.value, json.loads(data)) for *_, data in told]
    assert [(change.name, change.subject) for change in changes if change] == [
        ("incident.opened", None),
        ("incident.attached", "orders"),
    ]
    opened, attached = changes
    assert opened is not None
    assert attached is not None
    assert [subject for *_, subject, _, _, _ in told] == [b"i", b"orders"], "the key of the record"
    assert (opened.incident_id, opened.incident["severity"]) == ("i", "SEV-1")
    assert opened.cause == opened.event_id != attached.event_id
    assert attached.data["changed"] == ["asset_id"]
