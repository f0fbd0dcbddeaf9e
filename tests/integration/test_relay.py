"""The relay: every change a reader could notice is told on the log, in order, as its asset was then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from confluent_kafka import Consumer, Message
from test_dead_letters import bury, refused

from kit.events import event, purging, table
from kit.eventually import eventually
from kit.staging import Catalog
from lily.domain.assets import Lane
from lily.log.producer import client_config
from lily.log.topics import Topic
from lily.pipeline import relay
from lily.pipeline.relay import Relay
from lily.repositories.postgres.outbox import changes_of
from lily.settings import KafkaSettings, Settings

STRANGE = 'a "quoted"\nname, \\ and \x01 ünïcode'
TRACE = f"00-{7:032x}-{7:016x}-01"


@pytest.fixture
def told(topics: KafkaSettings) -> Iterator[Consumer]:
    group = {"group.id": f"{topics.topic_prefix}reader", "auto.offset.reset": "earliest"}
    with closing(Consumer(client_config(topics) | group)) as consumer:
        consumer.subscribe(
            [each.under(topics.topic_prefix) for each in (Topic.METADATA_CHANGES, Topic.DEAD_LETTERS)]
        )
        yield consumer


@contextmanager
def relaying(settings: Settings, lane: Lane = Lane.STRUCTURAL) -> Iterator[None]:
    running = Relay(settings, lane, lambda: None)
    running.start()
    try:
        yield
    finally:
        running.stop()


def read(told: Consumer, wanted: int) -> list[Message]:
    found: list[Message] = []

    def enough() -> bool:
        found.extend(told.consume(wanted, 0.2))
        return len(found) >= wanted

    eventually(enough, 30)
    return found


def headers_of(message: Message) -> dict[str, Any]:
    return {name: value.decode() for name, value in message.headers() or ()}


def test_what_a_reader_could_notice_is_told_with_the_asset_as_it_was(
    settings: Settings, catalog: Catalog, told: Consumer
) -> None:
    first_said = {"asset_name": STRANGE, "description": STRANGE, "user_tags": ["PII"], "metadata": {"a": [1]}}
    catalog.apply(table("orders", 1, **first_said), event("hidden", 2, description="not visible yet"))
    catalog.apply(table("orders", 3, source_tags=["gdpr"]))
    catalog.apply(table("gone", 4))
    catalog.apply(purging("gone", 5))
    with relaying(settings):
        messages = read(told, 4)
    changes = [json.loads(message.value() or b"") for message in messages]
    changes.sort(key=lambda change: change["seq"])
    assert [each["outcome"] for each in changes] == ["created", "updated", "created", "purged"]
    first, second, _, last = changes
    assert first["asset"] | {"created_at": None, "updated_at": None} == {
        "asset_id": "orders", "asset_name": STRANGE, "asset_type": "table", "asset_owner": None,
        "description": STRANGE, "data_source": None, "external_id": None, "tenant_id": "acme",
        "tags": ["PII"], "tag_assertions": {"source": [], "user": ["PII"]}, "business_terms": [],
        "metadata": {"a": [1]}, "is_deleted": False, "created_at": None, "updated_at": None, "version": 1,
    }  # fmt: skip
    assert first["changed"] == ["asset_name", "asset_type", "description", "tags", "metadata"]
    assert (second["changed"], second["asset"]["tags"]) == (["asset_name", "tags"], ["gdpr"])
    assert (last["asset_id"], last["asset"]) == ("gone", None)


def test_a_record_says_in_its_headers_whom_it_concerns(
    settings: Settings, catalog: Catalog, told: Consumer
) -> None:
    catalog.apply(table("orders", 1))
    catalog.apply(table("orders", 2, asset_name="sales"), tenant="other")
    catalog.fetch("UPDATE changes SET traceparent = %s WHERE tenant_id = 'other' RETURNING seq", TRACE)
    with relaying(settings):
        by_tenant = {headers_of(each)["ce_tenantid"]: each for each in read(told, 2)}
    for tenant, message in by_tenant.items():
        headers, data = headers_of(message), json.loads(message.value() or b"")
        assert message.key() == f"{tenant}/orders".encode()
        assert headers["ce_id"] == data["event_id"]
        assert datetime.fromisoformat(headers["ce_time"]) == datetime.fromisoformat(data["applied_at"])
        assert (headers["ce_subject"], headers["ce_actor"], data["tenant_id"]) == ("orders", "ada", tenant)
        assert headers["ce_type"] == "io.lily.asset.changed.v1"
    assert headers_of(by_tenant["other"])["traceparent"] == TRACE
    assert "traceparent" not in headers_of(by_tenant["acme"])


def test_a_refused_record_without_an_id_is_told_under_one(
    settings: Settings, catalog: Catalog, told: Consumer
) -> None:
    bury(catalog, refused(7, event_id="no UUID\nbut a line"), refused(8, event_id=""))
    with relaying(settings):
        known, unknown = read(told, 2)
    assert headers_of(known)["ce_id"] == "no UUID\nbut a line"
    assert UUID(headers_of(unknown)["ce_id"]).version == 5
    assert [json.loads(each.value() or b"")["offset"] for each in (known, unknown)] == [7, 8]


def test_a_queue_is_told_in_order_page_by_page_and_once(
    settings: Settings, catalog: Catalog, told: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "_MOST", 3)
    catalog.apply(*(table("orders", minute, description=f"{minute}") for minute in range(20)))
    with relaying(settings):
        descriptions = [json.loads(each.value() or b"")["asset"]["description"] for each in read(told, 20)]
    assert descriptions == [str(minute) for minute in range(20)]
    with psycopg.connect(catalog.url) as connection:
        [(last,)] = connection.execute("SELECT max(seq) FROM changes").fetchall()
        eventually(lambda: changes_of(Lane.STRUCTURAL).position(connection) == last)
    catalog.apply(table("orders", 30, description="another"))
    with relaying(settings):
        [message] = read(told, 1)
    assert json.loads(message.value() or b"")["asset"]["description"] == "another"


def test_a_change_of_effective_tags_is_told_with_its_reasons(
    settings: Settings, catalog: Catalog, told: Consumer
) -> None:
    reasons = {"PII": {"cause": str(UUID(int=1)), "origin": 'a "source"'}}
    catalog.connection.execute(
        "INSERT INTO tag_changes (tenant_id, asset_id, event_id, cause, added, removed, reasons)"
        " VALUES ('acme', 'orders', %s, %s, '{PII}', '{gdpr}', %s)",
        (UUID(int=2), UUID(int=1), json.dumps(reasons)),
    )
    with relaying(settings, Lane.LINEAGE):
        [message] = read(told, 1)
    data = json.loads(message.value() or b"")
    assert data.pop("event_time") == data.pop("applied_at")
    assert data == {
        "tenant_id": "acme", "asset_id": "orders", "event_id": str(UUID(int=2)), "outcome": "retagged",
        "actor": "", "changed": ["effective_tags"], "lane": "lineage", "seq": 1, "cause": str(UUID(int=1)),
        "added": ["PII"], "removed": ["gdpr"], "reasons": reasons,
    }  # fmt: skip
    assert headers_of(message)["ce_type"] == "io.lily.tags.changed.v1"
    assert "ce_actor" not in headers_of(message)
