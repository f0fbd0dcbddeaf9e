"""What a move of a tenant compares and waits for, so that nothing is lost on the way."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.types.json import Jsonb

from kit.databases import Databases
from kit.eventually import eventually
from lily.apps.tenants import Tenancy
from lily.log.arrears import count_unread
from lily.log.changes import ChangeFeed, ChangeRecord
from lily.log.replays import append_again
from lily.log.topics import Topic
from lily.repositories.postgres.tenant_admin import TenantAdmin, fingerprint
from lily.settings import KafkaSettings, Settings

NOW, ID = "2026-01-01T00:00:00Z", str(uuid4())
CLOCK = {"actor": "ada", "clock_time": NOW, "clock_id": ID}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "an edge": ("edges", {"from_id": "a", "to_id": "b", "relationship_type": "uses"}),
    "a tag": ("tag_assertions", {"asset_id": "a", "tag": "PII", "source": "user", "holds": True} | CLOCK),
    "an opt-out": ("tag_opt_outs", {"asset_id": "a", "tag": "PII", "holds": True} | CLOCK),
    "a tag in force": (
        "effective_tags",
        {"asset_id": "a", "tag": "PII", "is_partial": False, "is_asserted": True, "since": NOW, "cause": ID},
    ),
    "an incident": (
        "incidents",
        {"incident_id": "i", "said": "{}", "clocks": "{}", "opened_at": NOW, "updated_at": NOW},
    ),
}
KINDS = {"an edge": "edges", "an incident": "incidents"}


def put(url: str, table: str, row: dict[str, Any]) -> None:
    values = {"tenant_id": "acme"} | row
    names = ", ".join(values)
    with psycopg.connect(url) as connection:
        statement = f"INSERT INTO {table} ({names}) VALUES ({', '.join(['%s'] * len(values))})"
        connection.execute(statement.encode(), list(values.values()))


def test_cells_agree_only_when_every_kind_of_thing_is_the_same(database: str, databases: Databases) -> None:
    other = databases.create()
    for name, (table, row) in ROWS.items():
        put(database, table, row)
        here, there = fingerprint(database, "acme"), fingerprint(other, "acme")
        assert here.differing(there) == [KINDS.get(name, "tags")], f"{name} was lost and not noticed"
        put(other, table, row)
        assert fingerprint(database, "acme") == fingerprint(other, "acme")
    databases.drop(other)


def test_what_a_group_has_not_committed_is_unread(topics: KafkaSettings) -> None:
    name = Topic.NOTIFICATIONS.under(topics.topic_prefix)
    headers = [("ce_type", b"io.lily.notification.requested.v1"), ("ce_tenantid", b"acme")]
    group = f"{topics.topic_prefix}readers"
    assert count_unread(topics, group, [Topic.NOTIFICATIONS]) == 0
    append_again(topics, [(name, b"acme", b"{}", list(headers)) for _ in range(3)])
    assert count_unread(topics, group, [Topic.NOTIFICATIONS]) == 3
    with closing(ChangeFeed(topics, "readers", [Topic.NOTIFICATIONS])) as feed:
        read: list[ChangeRecord] = []
        eventually(lambda: read.extend(feed.poll(0.2)) or len(read) == 3, 30)
        for done, left in ((2, 1), (3, 0)):
            feed.commit({(each.topic, each.partition): each.offset + 1 for each in read[:done]})
            assert count_unread(topics, group, [Topic.NOTIFICATIONS]) == left


def test_rows_of_a_tenant_that_lives_elsewhere_are_tidied_away(
    settings: Settings, databases: Databases
) -> None:
    shared = settings.database.url.get_secret_value()
    home = databases.dedicate(shared, "acme")
    for url in (shared, home):
        put(url, *ROWS["an edge"])
    put(shared, "edges", {"tenant_id": "globex"} | ROWS["an edge"][1])
    Tenancy(settings).tidy()
    assert [count(url, "acme") for url in (shared, home)] == [0, 1]
    assert count(shared, "globex") == 1
    databases.drop(home)


def test_a_cell_is_left_when_a_living_pipeline_no_longer_says_that_it_runs_its_queries(database: str) -> None:
    admin = TenantAdmin(database)
    assert not admin.runs_queries("t1", 10)
    with psycopg.connect(database, autocommit=True) as connection:
        beat = "INSERT INTO heartbeats VALUES ('streams', 'healthy', %s)"
        connection.execute(beat, [Jsonb({"queries": {"history": "running", "t1/history": "running"}})])
        assert admin.runs_queries("t1", 10)
        assert not admin.runs_queries("t", 10)
        connection.execute("UPDATE heartbeats SET beat_at = beat_at - interval '11 s'")
    assert not admin.runs_queries("t1", 10)


def count(url: str, tenant: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM edges WHERE tenant_id = %s", [tenant]).fetchone()
    assert row is not None
    return int(row[0])
