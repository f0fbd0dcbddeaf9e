"""Readers of `metadata-changes`: in a group nothing is skipped, alone everything is seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from kit.eventually import eventually
from lily.log import changes
from lily.log.changes import ChangeFeed, ChangeRecord
from lily.log.migrations import migrate_topics
from lily.log.replays import append_again
from lily.log.topics import Topic
from lily.settings import KafkaSettings


def tell(kafka: KafkaSettings, *values: str, key: str = "acme/orders") -> None:
    headers = [("ce_type", b"io.lily.asset.changed.v1"), ("ce_tenantid", b"acme")]
    topic = Topic.METADATA_CHANGES.under(kafka.topic_prefix)
    append_again(kafka, [(topic, key.encode(), value.encode(), list(headers)) for value in values])


def cell_of(kafka: KafkaSettings, name: str) -> KafkaSettings:
    """A dedicated cell's topics, made here."""
    cell = kafka.model_copy(update={"topic_prefix": f"{kafka.topic_prefix}cell-{name}."})
    migrate_topics(cell)
    return cell


def read(feed: ChangeFeed, wanted: int) -> list[ChangeRecord]:
    found: list[ChangeRecord] = []

    def enough() -> bool:
        found.extend(feed.poll(0.2))
        return len(found) >= wanted

    eventually(enough, 30)
    return found


@pytest.fixture
def group(topics: KafkaSettings) -> Iterator[ChangeFeed]:
    with closing(ChangeFeed(topics, "readers")) as feed:
        yield feed


def test_a_group_reads_all_cells_and_again_what_was_not_committed(topics: KafkaSettings) -> None:
    cell = cell_of(topics, "acme")
    tell(topics, "1", "2")
    tell(cell, "3")
    with closing(ChangeFeed(topics, "readers")) as first:
        seen = read(first, 3)
        assert {record.value for record in seen} == {b"1", b"2", b"3"}
        assert {record.tenant_id for record in seen} == {"acme"}
        assert {record.event_type for record in seen} == {"io.lily.asset.changed.v1"}
        first.commit({(each.topic, each.partition): each.offset + 1 for each in seen if each.value != b"3"})
    tell(topics, "4")
    with closing(ChangeFeed(topics, "readers")) as second:
        assert {record.value for record in read(second, 2)} == {b"3", b"4"}


def test_records_of_one_asset_come_in_order(topics: KafkaSettings, group: ChangeFeed) -> None:
    tell(topics, *map(str, range(50)))
    assert [int(record.value) for record in read(group, 50)] == list(range(50))


def test_alone_begins_now_and_goes_on_from_its_positions(topics: KafkaSettings) -> None:
    tell(topics, "before")
    with closing(ChangeFeed.alone(topics)) as feed:
        tell(topics, "1")
        assert [record.value for record in read(feed, 1)] == [b"1"]
        reached = feed.positions
    tell(topics, "2")
    with closing(ChangeFeed.alone(topics, reached)) as feed:
        assert [record.value for record in read(feed, 1)] == [b"2"]


def test_alone_reads_a_cell_made_meanwhile_from_its_beginning(
    topics: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_REFRESH_SECONDS", 0.5)
    with closing(ChangeFeed.alone(topics)) as feed:
        cell = cell_of(topics, "late")
        tell(cell, "1", "2")
        assert {record.value for record in read(feed, 2)} == {b"1", b"2"}
