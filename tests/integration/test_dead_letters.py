"""Dead letters: buried once, listed with their reasons, and handed out again as they came."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from kit.events import at
from kit.staging import Catalog, batch_of
from lily.log.producer import client_config
from lily.log.replays import append_again
from lily.log.topics import Topic
from lily.pipeline.staging import SCHEMA
from lily.repositories.postgres.dead_letters import Record, Selection, list_dead_letters, pages_for_replay
from lily.settings import KafkaSettings

ALL = Selection()


def refused(offset: int, **values: Any) -> dict[str, Any]:
    """A staged record that cannot be applied."""
    headers = [{"key": "ce_id", "value": b64encode(b"e-1").decode()}, {"key": "empty"}]
    return {
        "topic": "events",
        "partition": 0,
        "offset": offset,
        "key": b"k",
        "payload": b"{oops \xff",
        "headers": json.dumps(headers),
        "reason": "malformed",
        "detail": "no JSON",
        "event_id": "e-1",
        "tenant_id": "acme",
        "event_time": at(0),
        "received_at": at(0),
    } | values


def bury(catalog: Catalog, *rows: dict[str, Any], batch_id: int = 1) -> None:
    staged = pa.Table.from_pylist(list(rows), schema=SCHEMA)
    catalog.applier.apply_table(batch_of(len(rows), batch_id, dead=len(rows)), staged)


def handed_out(catalog: Catalog, selection: Selection = ALL) -> list[Record]:
    return [record for page in pages_for_replay(catalog.url, selection) for record in page]


def test_a_record_is_buried_once_however_often_it_is_read(catalog: Catalog) -> None:
    bury(catalog, refused(7))
    bury(catalog, refused(7), refused(8), batch_id=2)
    assert [row["offset"] for row in catalog.fetch('SELECT "offset" FROM dead_letters ORDER BY seq')] == [
        7,
        8,
    ]


def test_letters_are_listed_newest_first_by_tenant_and_reason(catalog: Catalog) -> None:
    bury(catalog, refused(0), refused(1, tenant_id="umbrella"), refused(2, reason="bad_time"), refused(3))

    def offsets(selection: Selection, most: int = 10) -> list[int]:
        return [
            each["offset"] for each in list_dead_letters(catalog.url, selection, most, with_replayed=False)
        ]

    assert offsets(ALL) == [3, 2, 1, 0]
    assert offsets(ALL, most=2) == [3, 2]
    assert offsets(Selection(tenant="acme", reason="malformed")) == [3, 0]


def test_a_record_without_tenant_or_id_is_listed_too(catalog: Catalog) -> None:
    bury(catalog, refused(0, tenant_id=None, event_id=None, key=None, payload=None, headers=None))
    letter = list_dead_letters(catalog.url, ALL, 1, with_replayed=False)[0]
    assert (letter["reason"], letter["offset"]) == ("malformed", 0)


def test_a_record_is_handed_out_as_it_came_and_only_once(catalog: Catalog) -> None:
    bury(catalog, refused(0))
    (record,) = handed_out(catalog)
    assert (record.topic, record.key, record.payload) == ("events", b"k", b"{oops \xff")
    assert record.headers[0] == ("ce_id", b"e-1")
    assert handed_out(catalog) == []
    assert list_dead_letters(catalog.url, ALL, 1, with_replayed=False) == []
    assert len(list_dead_letters(catalog.url, ALL, 1, with_replayed=True)) == 1


def test_a_record_without_headers_is_handed_out_too(catalog: Catalog) -> None:
    bury(catalog, refused(0, headers=None))
    assert [record.headers for record in handed_out(catalog)] == [[]]


def test_more_records_than_a_page_are_all_handed_out(catalog: Catalog) -> None:
    bury(catalog, *(refused(offset) for offset in range(1203)))
    assert len({record.seq for record in handed_out(catalog)}) == 1203


def test_a_page_that_could_not_be_sent_is_handed_out_again(catalog: Catalog) -> None:
    bury(catalog, refused(0))
    pages = pages_for_replay(catalog.url, ALL)
    next(pages)
    pages.close()  # the sender failed before it asked for more
    assert len(handed_out(catalog)) == 1


def test_what_is_sent_again_is_on_its_topic_as_it_came(topics: KafkaSettings) -> None:
    name = Topic.STRUCTURAL_ASSETS.under(topics.topic_prefix)
    headers: list[tuple[str, str | bytes | None]] = [("ce_id", b"e-1"), ("x", b"\xff\x00")]
    append_again(topics, [(name, b"k", b"{oops \xff", headers)])
    consumer = Consumer(client_config(topics) | {"group.id": "none"})
    try:
        consumer.assign([TopicPartition(name, partition, 0) for partition in range(topics.partitions)])
        message = consumer.poll(20)
    finally:
        consumer.close()
    assert message is not None
    assert (message.key(), message.value(), message.headers()) == (b"k", b"{oops \xff", headers)
