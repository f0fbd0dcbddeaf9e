"""What the merge promises, one claim at a time."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kit.events import at, event, purging, table
from kit.staging import Catalog, batch_of, stage
from lily.domain.assets import Lane

LOW, HIGH = UUID(int=1), UUID(int=2**128 - 1)


def snapshots(catalog: Catalog) -> list[Any]:
    """The names in the history, oldest first."""
    return [row["asset_name"] for row in catalog.fetch("SELECT asset_name FROM changes ORDER BY seq")]


def test_a_source_s_tags_are_shown_over_a_user_s_and_both_are_kept(catalog: Catalog) -> None:
    catalog.apply(table(), event(minute=2, user_tags=["mine"]), event(minute=1, source_tags=["pii"]))
    assert catalog.shown("orders")["tags"] == ["pii"]
    assert catalog.shown("orders")["tag_assertions"] == {"source": ["pii"], "user": ["mine"]}


def test_a_user_s_tags_are_shown_again_when_the_source_takes_its_own_back(catalog: Catalog) -> None:
    catalog.apply(table(), event(minute=1, user_tags=["mine"], source_tags=["pii"]))
    catalog.apply(event(minute=2, source_tags=[]))
    assert catalog.shown("orders")["tags"] == ["mine"]


def test_an_older_event_never_overwrites(catalog: Catalog) -> None:
    catalog.apply(table(minute=5, asset_name="new"))
    catalog.apply(table(minute=4, asset_name="old"))
    assert catalog.row("orders")["asset_name"] == "new"
    assert catalog.outcomes() == ["created", "superseded"]


def test_ties_are_decided_by_the_event_id_byte_by_byte(catalog: Catalog) -> None:
    catalog.apply(table(asset_name="high", event_id=HIGH), table(asset_name="low", event_id=LOW))
    assert catalog.row("orders")["asset_name"] == "high"


def test_a_late_partial_event_still_lands_where_nobody_spoke_since(catalog: Catalog) -> None:
    catalog.apply(table(minute=5))
    catalog.apply(event(minute=3, asset_owner="ada", asset_name="older name"))
    assert catalog.row("orders")["asset_owner"] == "ada"
    assert catalog.row("orders")["asset_name"] == "Orders"
    assert catalog.row("orders")["clock_time"] == at(5)
    catalog.apply(event(minute=2, asset_owner="bob"), event(minute=4, asset_owner="eve"))
    assert catalog.row("orders")["asset_owner"] == "eve"


def test_created_at_is_the_earliest_time_anybody_mentioned(catalog: Catalog) -> None:
    catalog.apply(table(minute=5))
    assert catalog.row("orders")["created_at"] == at(5)
    catalog.apply(event(minute=6, created_at=at(2)), event(minute=7, created_at=at(4)), event(minute=3))
    assert catalog.row("orders")["created_at"] == at(2)


def test_an_event_counts_once_however_often_and_wherever_it_comes(catalog: Catalog) -> None:
    once = table()
    catalog.apply(once, once)
    catalog.apply(once)
    catalog.apply(once, lane=Lane.LEAF)
    assert catalog.outcomes() == ["created"]
    assert catalog.row("orders")["version"] == 1


def test_saying_the_same_again_makes_no_version_and_tells_nobody(catalog: Catalog) -> None:
    catalog.apply(table(metadata={"a": 1, "b": [2]}, user_tags=["pii"]))
    catalog.apply(table(minute=1, metadata={"b": [2], "a": 1}, user_tags=["pii"]))
    assert catalog.outcomes() == ["created", "unchanged"]
    assert catalog.row("orders")["version"] == 1
    assert snapshots(catalog) == ["Orders", None]


def test_saying_the_same_again_later_defends_it_against_what_is_between(catalog: Catalog) -> None:
    catalog.apply(table(minute=1), table(minute=9), table(minute=5, asset_name="between"))
    assert catalog.row("orders")["asset_name"] == "Orders"


def test_an_event_that_expects_another_version_is_refused_and_changes_nothing(catalog: Catalog) -> None:
    catalog.apply(table())
    before = catalog.row("orders")
    catalog.apply(event(minute=1, asset_owner="ada", expected_version=7))
    assert catalog.outcomes() == ["created", "refused"]
    assert catalog.row("orders") == before


def test_of_two_that_expect_the_same_version_one_is_applied(catalog: Catalog) -> None:
    catalog.apply(table())
    catalog.apply(
        event(minute=1, asset_owner="ada", expected_version=1),
        event(minute=2, asset_owner="bob", expected_version=1),
    )
    assert catalog.outcomes() == ["created", "updated", "refused"]
    assert catalog.row("orders")["asset_owner"] == "ada"


def test_expecting_version_zero_means_only_if_there_is_nothing(catalog: Catalog) -> None:
    catalog.apply(table(expected_version=0))
    catalog.apply(table(minute=1, asset_name="again", expected_version=0))
    assert catalog.outcomes() == ["created", "refused"]


def test_a_deleted_asset_is_kept_and_can_be_restored(catalog: Catalog) -> None:
    catalog.apply(table(), event(minute=1, is_deleted=True))
    assert catalog.shown("orders")["is_deleted"] is True
    catalog.apply(event(minute=2, is_deleted=False))
    assert catalog.outcomes() == ["created", "deleted", "restored"]
    assert catalog.shown("orders")["is_deleted"] is False


def test_a_deletion_that_arrives_after_the_restoration_does_not_delete(catalog: Catalog) -> None:
    catalog.apply(table(), event(minute=2, is_deleted=False), event(minute=1, is_deleted=True))
    assert catalog.shown("orders")["is_deleted"] is False


def test_an_asset_only_spoken_about_waits_for_its_creation(catalog: Catalog) -> None:
    catalog.apply(event(minute=1, asset_owner="ada"))
    assert catalog.outcomes() == ["pending"]
    assert catalog.shown("orders") is None
    catalog.apply(table())
    assert catalog.outcomes() == ["pending", "created"]
    assert catalog.shown("orders")["asset_owner"] == "ada"


def test_a_purged_asset_is_gone_and_its_history_forgotten(catalog: Catalog) -> None:
    catalog.apply(table(), event(minute=1, asset_owner="ada", metadata={"secret": True}))
    catalog.apply(purging(minute=2))
    assert catalog.outcomes()[-1] == "purged"
    assert catalog.shown("orders") is None
    assert snapshots(catalog) == [None, None, None]
    assert not catalog.fetch("SELECT FROM changes WHERE metadata IS NOT NULL OR asset_owner IS NOT NULL")


def test_what_is_older_than_a_purge_and_comes_later_stays_forgotten(catalog: Catalog) -> None:
    catalog.apply(table(minute=1), purging(minute=5))
    catalog.apply(table(minute=2, asset_owner="ada"), event(minute=3, metadata={"secret": True}))
    assert catalog.shown("orders") is None
    assert snapshots(catalog) == [None, None, None, None]


def test_a_purged_asset_can_be_created_anew_without_its_past(catalog: Catalog) -> None:
    catalog.apply(table(asset_owner="ada"))
    catalog.apply(purging(minute=1))
    catalog.apply(table(minute=2, asset_name="reborn"))
    assert catalog.shown("orders")["asset_owner"] is None
    assert snapshots(catalog) == [None, None, "reborn"]


def test_a_purge_forgets_the_past_also_when_the_same_batch_creates_the_asset_anew(catalog: Catalog) -> None:
    catalog.apply(table(asset_owner="ada"), purging(minute=1), table(minute=2, asset_name="reborn"))
    assert snapshots(catalog) == [None, None, "reborn"]


def test_a_purge_that_arrives_after_the_new_creation_forgets_the_past_too(catalog: Catalog) -> None:
    catalog.apply(table(asset_owner="ada"))
    catalog.apply(table(minute=2, asset_name="reborn"))
    catalog.apply(purging(minute=1))
    assert catalog.shown("orders")["asset_owner"] is None
    owners = catalog.fetch("SELECT asset_owner FROM changes WHERE asset_owner IS NOT NULL")
    assert owners == []


def test_two_events_with_one_id_about_two_assets_do_not_stop_the_lane(catalog: Catalog) -> None:
    catalog.apply(table("orders", event_id=HIGH), table("customers", event_id=HIGH), table("invoices"))
    assert "invoices" in catalog.rows()
    assert len(catalog.rows()) == 2  # an id counts once


def test_tenants_do_not_see_each_other_s_events(catalog: Catalog) -> None:
    same = table()
    catalog.apply(same, tenant="acme")
    catalog.apply(same, tenant="umbrella")
    catalog.apply(event(minute=1, asset_owner="eve"), tenant="umbrella")
    assert catalog.rows("acme")["orders"]["asset_owner"] is None
    assert catalog.rows("umbrella")["orders"]["asset_owner"] == "eve"


def test_a_rehearsal_leaves_nothing(catalog: Catalog) -> None:
    catalog.applier.apply_table(batch_of(1, 1), stage([table()]), keep=False)
    assert catalog.rows() == {}
    assert catalog.changes() == []
    assert catalog.applier.position("assets-structural") is None
