"""Tenants in cells of their own, and on the move, on a whole installation."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest

from kit.eventually import eventually
from kit.platform import Platform, Tenant, table
from lily.log.topics import Topic


def new_tenant(platform: Platform, *options: str) -> Tenant:
    tenant = Tenant(platform, f"t{uuid4().hex[:8]}")
    platform.lily("tenant", "create", tenant.name, *options)
    return tenant


def cell_url(platform: Platform, cell: str) -> str:
    url = urlsplit(platform.settings.database.url.get_secret_value())
    return urlunsplit(url._replace(path=f"{url.path}_cell_{cell}"))


def event_ids(url: str, tenant: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT event_id::text FROM changes WHERE tenant_id = %s", (tenant,))
        return {event_id for (event_id,) in rows}


def shared_url(platform: Platform) -> str:
    return platform.settings.database.url.get_secret_value()


#: Assets that come through the leaf lane.
LEAVES = ("a1", "a3")


class Writing:
    """Writes without pause while it runs, retries what is asked to come back, and keeps what was accepted."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.accepted: dict[str, list[str]] = defaultdict(list)
        self.ids: list[str] = []
        self.about_lineage: list[str] = []
        self.asked_back: list[float] = []
        self.wrong: list[Any] = []

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            asset_id, number = f"a{number % 7}", number + 1
            kind = "column" if asset_id in LEAVES else "table"
            body = table(asset_id=asset_id, asset_name=f"n{number}", asset_type=kind)
            answer = self._tenant.post(body, {"prefer": "respond-async"})
            if answer.status_code == 503:
                assert answer.headers["retry-after"]
                self.asked_back.append(time.monotonic())
                time.sleep(0.05)
            elif answer.status_code == 202:
                time.sleep(0.01)  # all the while, but not so much that the move waits for it
                self.accepted[asset_id].append(f"n{number}")
                self.ids.append(answer.headers["lily-event-id"])
            else:
                self.wrong.append(answer.text)


def say_lineage(tenant: Tenant) -> list[str]:
    """Tag an asset, and lead the tag on to another; returns the events' ids."""
    edge = {"from_asset_id": "keyed", "to_asset_id": "a1", "relationship_type": "derived-from"}
    tag = {"asset_id": "keyed", "tags": ["PII"]}
    said = [
        tenant.call("POST", path, json=body)
        for path, body in (("/lineage", edge), ("/governance/classification", tag))
    ]
    assert [answer.status_code for answer in said] == [200, 200], [answer.text for answer in said]
    return [answer.headers["lily-event-id"] for answer in said]


@pytest.fixture(scope="module")
def mover(platform: Platform) -> tuple[Tenant, Writing, str]:
    """A tenant that wrote all the while it moved from the shared cell to one of its own."""
    eventually(lambda: platform.parts().get("standby", {}).get("state") == "ready", 180)
    tenant = new_tenant(platform)
    keyed = tenant.post(table("keyed"), {"idempotency-key": "k"}).headers["lily-event-id"]
    with Writing(tenant) as writing:
        writing.about_lineage = say_lineage(tenant)
        eventually(lambda: len(writing.ids) > 50)
        platform.lily("tenant", "move", tenant.name, "--to", "dedicated")
        moved = len(writing.ids)
        eventually(lambda: len(writing.ids) > moved + 50)
    return tenant, writing, keyed


def test_a_dedicated_tenant_has_a_database_topics_lake_and_queries_of_its_own(platform: Platform) -> None:
    tenant = new_tenant(platform, "--isolation", "dedicated")
    answer = eventually(lambda: a if (a := tenant.post()).status_code in (200, 201) else None, 60)
    event_id = answer.headers["lily-event-id"]
    assert tenant.get().json()["asset_name"] == "Orders"
    assert tenant.get(lily_after=event_id).status_code == 200
    assert event_ids(cell_url(platform, tenant.name), tenant.name) >= {event_id}
    assert event_ids(shared_url(platform), tenant.name) == set()
    health = platform.health()["components"]["streams"]["details"]["queries"]
    assert health[f"{tenant.name}/assets-structural"] == "running"
    row = next(line for line in platform.lily("tenant", "list").splitlines() if line.startswith(tenant.name))
    assert row.split()[3:13:2] == ["own"] * 4 + ["shared"], "who may do what, and the audit, stay shared"
    platform.lily("tenant", "delete", tenant.name, "--yes")
    assert tenant.name not in platform.lily("tenant", "list")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(cell_url(platform, tenant.name))


def test_a_move_loses_no_event_and_asks_for_patience_only_shortly(mover: tuple[Tenant, Writing, str]) -> None:
    tenant, writing, keyed = mover
    assert writing.wrong == []
    platform = tenant.platform
    expected = {*writing.ids, keyed}
    there = cell_url(platform, tenant.name)
    eventually(lambda: event_ids(there, tenant.name) == expected, 30)
    assert event_ids(shared_url(platform), tenant.name) == set()
    if writing.asked_back:
        assert writing.asked_back[-1] - writing.asked_back[0] < 15


def test_after_a_move_every_asset_and_its_history_are_what_was_accepted(
    mover: tuple[Tenant, Writing, str],
) -> None:
    tenant, writing, _ = mover
    last = {asset_id: names[-1] for asset_id, names in writing.accepted.items()}
    for asset_id, name in last.items():
        eventually(lambda a=asset_id, n=name: tenant.get(a).json()["asset_name"] == n, 30)
        history = tenant.get(asset_id, "?history=true&page_size=1000").json()["history"]
        names = [entry["asset"]["asset_name"] for entry in reversed(history)]
        assert names == writing.accepted[asset_id]


def test_after_a_move_edges_and_the_tags_that_came_over_them_are_there(
    mover: tuple[Tenant, Writing, str],
) -> None:
    tenant, _, _ = mover
    shown = tenant.call("GET", "/lineage/keyed?depth=1").json()
    assert [(edge["from_asset_id"], edge["to_asset_id"]) for edge in shown["relationships"]] == [
        ("keyed", "a1")
    ]
    assert tenant.get("a1").json()["effective_tags"] == ["PII"]


def test_after_a_move_a_retry_is_still_the_same_write(mover: tuple[Tenant, Writing, str]) -> None:
    tenant, _, keyed = mover
    again = tenant.post(table("keyed"), {"idempotency-key": "k"})
    assert again.headers["lily-event-id"] == keyed
    assert again.headers["idempotent-replayed"] == "true"


def test_after_a_move_the_lake_of_the_new_cell_has_every_event(mover: tuple[Tenant, Writing, str]) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    tenant, writing, keyed = mover
    uri = urlunsplit(urlsplit(shared_url(tenant.platform))._replace(scheme="postgresql+psycopg"))
    catalog = SqlCatalog("lake", uri=uri, warehouse=tenant.platform.settings.lake.warehouse)

    def ids(name: str) -> set[str]:
        rows = catalog.load_table(f"lily_cell_{tenant.name}.{name}").scan(selected_fields=("event_id",))
        return set(rows.to_arrow()["event_id"].to_pylist())

    try:
        # The history tells of tags that came and went, too.
        eventually(lambda: ids("history") >= {*writing.ids, keyed}, 90)
        eventually(lambda: ids("events") == {*writing.ids, *writing.about_lineage, keyed}, 90)
    finally:
        catalog.engine.dispose()


def test_a_tenant_moves_back_and_other_tenants_notice_nothing(mover: tuple[Tenant, Writing, str]) -> None:
    tenant, writing, keyed = mover
    other = Tenant(tenant.platform)
    other.post()
    before = {asset_id: tenant.get(asset_id).json() for asset_id in writing.accepted}
    tenant.platform.lily("tenant", "move", tenant.name, "--to", "shared")
    assert {asset_id: tenant.get(asset_id).json() for asset_id in writing.accepted} == before
    assert event_ids(shared_url(tenant.platform), tenant.name) >= {*writing.ids, keyed}
    assert other.get().json()["version"] == 1
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(cell_url(tenant.platform, tenant.name))
    topics = {Topic.STRUCTURAL_ASSETS.under(f"cell-{tenant.name}.")}
    assert topics.isdisjoint(known_topics(tenant.platform))


def known_topics(platform: Platform) -> set[str]:
    from confluent_kafka.admin import AdminClient

    from lily.log.producer import client_config

    return set(AdminClient(client_config(platform.settings.kafka)).list_topics(timeout=10).topics)
