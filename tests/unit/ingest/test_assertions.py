"""An event says exactly what the caller said, at a time that is always resolved."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lily.domain.assets import Lane, derive_asset_id
from lily.domain.errors import Forbidden, InvalidInput
from lily.domain.event_ids import members, new_batch_id
from lily.ingest.assertions import Arrival, draft_assertion, draft_purge, make_records, replacing
from lily.log.envelope import EventType
from lily.log.topics import Topic

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
ARRIVAL = Arrival("acme", "ada", "/lily/v1", "00-" + "a" * 32 + "-" + "b" * 16 + "-01", NOW)


def said(**fields: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(draft_assertion({"asset_id": "a"} | fields, ARRIVAL).data)
    return document


def test_only_what_was_mentioned_is_said() -> None:
    assert said(description=None) == {
        "asset_id": "a",
        "description": None,
        "event_time": "2026-01-02T03:04:05.678901Z",
    }


def test_read_only_fields_are_not_said() -> None:
    posted_back = said(version=3, tag_assertions={"user": []}, tenant_id="acme", created_at=None)
    assert set(posted_back) == {"asset_id", "event_time"}


def test_the_time_is_that_of_the_event_else_of_the_update_else_of_arrival() -> None:
    earlier, earliest = NOW - timedelta(days=1), NOW - timedelta(days=2)
    assert said(event_time=earliest, updated_at=earlier)["event_time"].startswith("2025-12-31")
    assert said(event_time=None, updated_at=earlier)["event_time"].startswith("2026-01-01")
    assert said(updated_at=None)["event_time"].startswith("2026-01-02")


def test_a_time_more_than_a_day_ahead_is_refused() -> None:
    assert said(event_time=NOW + timedelta(hours=24))
    with pytest.raises(InvalidInput, match="24 hours ahead"):
        said(event_time=NOW + timedelta(hours=24, microseconds=1))


def test_tags_are_a_users_unless_the_caller_says_they_are_a_sources() -> None:
    assert said(tags=["pii"])["tag_origin"] == "user"
    assert said(tags=["pii"], tag_origin=None)["tag_origin"] == "user"
    assert said(tags=["pii"], tag_origin="source")["tag_origin"] == "source"
    assert "tag_origin" not in said(tag_origin="source")


def test_empty_and_none_are_said_alike() -> None:
    empty = {"tags": [], "business_terms": [], "metadata": {}, "is_deleted": False}
    assert said(**empty) == said(**dict.fromkeys(empty))


def test_an_id_is_derived_from_source_and_external_id() -> None:
    draft = draft_assertion({"data_source": "s", "external_id": "1"}, ARRIVAL)
    assert draft.asset_id == derive_asset_id("s", "1") == json.loads(draft.data)["asset_id"]


@pytest.mark.parametrize(
    "fields", [{}, {"data_source": "s"}, {"external_id": "1"}, {"asset_id": None}], ids=str
)
def test_an_asset_without_any_id_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="both data_source and external_id"):
        draft_assertion(fields, ARRIVAL)


def test_another_tenants_name_is_refused() -> None:
    with pytest.raises(Forbidden):
        said(tenant_id="globex")


def test_the_lane_follows_the_type_said_else_the_type_known() -> None:
    assert draft_assertion({"asset_id": "a", "asset_type": "column"}, ARRIVAL).lane is Lane.LEAF
    assert draft_assertion({"asset_id": "a"}, ARRIVAL, "column").lane is Lane.LEAF
    assert (
        draft_assertion({"asset_id": "a", "asset_type": "table"}, ARRIVAL, "column").lane is Lane.STRUCTURAL
    )


def test_metadata_and_assets_have_a_largest_size() -> None:
    assert said(metadata={"k": "x" * (256 * 1024 - 8)})
    with pytest.raises(InvalidInput, match="262,144"):
        said(metadata={"k": "x" * (256 * 1024 - 7)})
    with pytest.raises(InvalidInput, match="1,048,576"):
        said(
            description="\x01" * 65_536, tags=["\x01" * 256 for _ in range(256)], asset_owner="\x01" * 200_000
        )


def test_a_replacement_clears_what_it_does_not_mention() -> None:
    replaced = replacing({"asset_id": "a", "asset_name": "n", "asset_type": "t", "description": "d"})
    assert replaced["description"] == "d"
    cleared = (
        "asset_owner",
        "data_source",
        "external_id",
        "business_terms",
        "tags",
        "metadata",
        "is_deleted",
    )
    assert all(replaced[name] is None for name in cleared)


def test_an_expected_version_is_said() -> None:
    draft = draft_assertion({"asset_id": "a"}, ARRIVAL, expected_version=3)
    assert json.loads(draft.data)["expected_version"] == 3
    assert json.loads(draft_purge("a", "table", ARRIVAL, 4).data)["expected_version"] == 4


def test_records_keep_order_and_ids_across_lanes() -> None:
    drafts = [
        draft_assertion({"asset_id": str(n), "asset_type": "column" if n % 3 else "table"}, ARRIVAL)
        for n in range(10)
    ]
    batch_id = new_batch_id(1, 10)
    ids = [str(member).encode() for member in members(batch_id)]
    records = make_records(batch_id, drafts, ARRIVAL)
    assert [dict(r.headers)["ce_id"] for r in records[Topic.STRUCTURAL_ASSETS]] == ids[::3]
    assert [r.key for r in records[Topic.STRUCTURAL_ASSETS]] == [b"acme/0", b"acme/3", b"acme/6", b"acme/9"]
    assert len(records[Topic.LEAF_ASSETS]) == 6


def test_a_purge_is_its_own_type_of_event() -> None:
    (record,) = make_records(new_batch_id(1), [draft_purge("a", "table", ARRIVAL, None)], ARRIVAL)[
        Topic.STRUCTURAL_ASSETS
    ]
    assert dict(record.headers)["ce_type"] == EventType.ASSET_PURGED.value.encode()
