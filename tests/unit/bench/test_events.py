"""The made-up metadata is what the platform takes."""

from __future__ import annotations

import json

from bench.kit.events import column, table_batch

from lily.domain.assets import Lane
from lily.ingest.payloads import decode_assets


def test_a_batch_of_tables_is_accepted_as_a_whole() -> None:
    decoded = decode_assets(table_batch([7, 99_999], 12))
    assert decoded.is_batch
    assert not decoded.rejected
    assert [fields["asset_id"] for fields in decoded.assets] == ["table-0000007", "table-0099999"]


def test_every_table_event_differs_from_all_others_of_its_asset() -> None:
    bodies = [table_batch([7, 7], first) for first in (0, 2)]
    rows = [asset["metadata"]["rows"] for body in bodies for asset in json.loads(body)["assets"]]
    assert rows == [0, 1, 2, 3]


def test_table_events_have_about_600_bytes() -> None:
    assert 500 < len(table_batch([1] * 100, 1_000_000)) / 100 < 650


def test_tables_and_columns_take_different_lanes() -> None:
    table = json.loads(table_batch([1], 0))["assets"][0]
    asset_id, event = column(41)
    assert Lane.of(table["asset_type"]) is Lane.STRUCTURAL
    assert Lane.of(json.loads(event)["asset_type"]) is Lane.LEAF
    assert json.loads(event)["asset_id"].encode() == asset_id


def test_the_columns_of_a_table_have_ordinals_of_their_own() -> None:
    columns = [json.loads(column(number)[1]) for number in range(20, 40)]
    assert sorted(each["metadata"]["ordinal"] for each in columns) == list(range(20))
    assert len({each["external_id"] for each in columns}) == 20
