"""Which changes a subscription is about, as far as the change and its asset tell."""

from __future__ import annotations

from typing import Any

import pytest

from lily.domain.assets import Traits
from lily.domain.changes import Change, ChangeKind, read_change
from lily.domain.event_ids import members, new_batch_id
from lily.domain.messages import Message, read_message
from lily.domain.subscriptions import CHANGE_NAMES, Selection, group_of

ORDERS = Traits("orders", "table", "dwh", "ada", user_tags=frozenset({"pii"}))
TYPES = {kind: f"io.lily.{kind}.changed.v1" for kind in ("asset", "tags", "incident")}
TYPES["notification"] = "io.lily.notification.requested.v1"


def change(kind: str = "asset", **data: Any) -> Change:
    told = {"tenant_id": "acme", "asset_id": "orders", "event_id": "e1", "outcome": "updated"} | data
    read = read_change(TYPES[kind], told)
    assert read is not None
    return read


OPENED = change("incident", outcome="opened", incident_id="i1", incident={"severity": "SEV-1"})


@pytest.mark.parametrize(
    ("selection", "what", "selected"),
    [
        (Selection(), change(), True),
        (Selection(changes=frozenset({"asset.updated"})), change(), True),
        (Selection(changes=frozenset({"asset"})), change(), True),
        (Selection(changes=frozenset({"asset.deleted"})), change(), False),
        (Selection(changes=frozenset({"tags"})), change(), False),
        (Selection(changes=frozenset({"tags"})), change("tags", outcome="retagged"), True),
        (Selection(assets=frozenset({"orders"})), change(), True),
        (Selection(assets=frozenset({"customers"})), change(), False),
        (Selection(severities=frozenset({"SEV-1", "SEV-2"})), OPENED, True),
        (Selection(severities=frozenset({"SEV-2"})), OPENED, False),
        (Selection(severities=frozenset({"SEV-1"})), change(), False),
        (Selection(tags=frozenset({"pii", "gdpr"})), change(), True),
        (Selection(tags=frozenset({"gdpr"})), change(), False),
        (Selection(tags=frozenset({"gdpr"})), change("tags", added=["gdpr"]), True),
        (Selection(tags=frozenset({"gdpr"})), change("tags", removed=["gdpr"]), True),
        (Selection(types=frozenset({"table"})), change(), True),
        (Selection(types=frozenset({"column"})), change(), False),
        (Selection(owners=frozenset({"ada"})), change(), True),
        (Selection(owners=frozenset({"bob"})), change(), False),
        (Selection(owners=frozenset({"ada"}), types=frozenset({"column"})), change(), False),
    ],
)
def test_a_selection_is_about_what_it_names_and_nothing_else(
    selection: Selection, what: Change, selected: bool
) -> None:
    assert (selection.looks_at(what) and selection.covers(what, ORDERS)) is selected


def test_a_record_that_is_no_change_is_none() -> None:
    told = {"tenant_id": "acme", "event_id": "e1"}
    assert read_change("io.lily.event.refused.v1", told) is None
    assert read_change(TYPES["asset"], {"tenant_id": "acme"}) is None
    assert read_change(TYPES["asset"], {"event_id": "e1"}) is None


def test_everything_about_one_incident_is_one_group() -> None:
    later = change("incident", outcome="resolved", incident_id="i1", event_id="e2")
    other = change("incident", outcome="opened", incident_id="i2", event_id="e3")
    assert group_of(OPENED) == group_of(later) != group_of(other)


def test_what_was_accepted_in_one_request_or_follows_from_one_cause_is_one_group() -> None:
    first, second = members(new_batch_id(1, size=2))
    assert group_of(change(event_id=str(first))) == group_of(change(event_id=str(second), asset_id="b"))
    assert group_of(change(event_id=str(first))) != group_of(change(event_id=str(new_batch_id(1, size=2))))
    spread = [change("tags", event_id=f"e{number}", cause="c") for number in range(2)]
    assert group_of(spread[0]) == group_of(spread[1])


def test_every_kind_of_change_can_be_named() -> None:
    assert {kind.value for kind in ChangeKind} <= CHANGE_NAMES
    assert {OPENED.name, change("tags").name, change().name, change("notification", outcome="").name} <= (
        CHANGE_NAMES
    )


def test_a_message_survives_as_json() -> None:
    message = Message("t", "x", "info", "asset.updated", "", "why", "g", fields=(("Owner", "ada"),))
    assert read_message(message.document()) == message
