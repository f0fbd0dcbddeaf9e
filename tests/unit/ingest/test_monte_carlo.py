"""What Monte Carlo's webhooks mean, and that they are signed as Monte Carlo signs."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from kit import monte_carlo as sender
from lily.access.requests import MalformedRequest
from lily.domain.connectors import SECRET
from lily.domain.errors import InvalidInput
from lily.domain.incidents import Step, StepKind, what_is_wrong
from lily.ingest.webhooks.monte_carlo import SOURCE, signature
from lily.ingest.webhooks.sources import Delivery

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def step(body: bytes, **config: Any) -> Step:
    [one] = SOURCE.parse(json.loads(body), config)
    assert not what_is_wrong(one.said)
    assert not what_is_wrong(one.first)
    return one


def authentic(body: bytes, headers: dict[str, str], secret: str = "s") -> bool:
    return SOURCE.is_authentic(Delivery(body, headers, NOW), {}, {SECRET: secret})


def test_the_signature_is_over_the_url_encoded_parsed_body() -> None:
    payload = {"account": {"id": "a"}, "payload": {"x": None}}
    encoded = "account=%7B%27id%27%3A+%27a%27%7D&payload=%7B%27x%27%3A+None%7D"
    assert signature("s", payload) == hmac.new(b"s", encoded.encode(), hashlib.sha512).hexdigest()


@pytest.mark.parametrize(
    "body", [sender.RULE_BREACH, b'{"a": 1.10, "b": 1e3, "c": "\\u00e4", "d": [true, 12345678901234567890]}']
)
def test_what_monte_carlo_signs_is_authentic_whatever_its_spelling(body: bytes) -> None:
    headers = sender.signed("s", body)
    assert authentic(body, headers)
    assert authentic(body.replace(b": ", b":"), headers), "white space is not signed"
    assert not authentic(body, headers, "another secret")
    assert not authentic(body, {})
    assert not authentic(body, headers | {"x-mcd-signature": ""})
    assert not authentic(body.replace(b"1", b"2"), headers)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"a": NaN}', b'{"a": "\\ud800"}', b"[" * 10_000, b'{"a": "\\u0000"}', b'"x"']
)
def test_what_is_no_object_that_can_be_kept_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        authentic(body, {"x-mcd-signature": "0" * 128})


def test_the_example_of_the_documentation_opens_an_incident() -> None:
    opened = step(sender.RULE_BREACH)
    assert (opened.kind, opened.external_id) == (StepKind.OPENED, "f83867b6-8f25-428b-807c-08518f63384c")
    assert opened.first == {"status": "open"}
    assert opened.said["title"] == "test rule"
    assert opened.said["url"].endswith(opened.external_id)
    assert opened.said["rule"]["id"] == "0c8e06aa-a44b-4f2d-8a37-5ed3f394431d"
    assert opened.said["measurements"][0]["value"] == "50.0"
    assert "names" not in opened.said, "the example names no table"


def test_a_new_alert_says_nothing_about_owner_severity_or_feedback() -> None:
    opened = step(sender.created("a", "orders"))
    assert opened.kind is StepKind.OPENED
    assert not {"owner", "severity", "feedback", "status"} & set(opened.said)
    assert opened.said["names"] == ["db:shop.orders", "db.shop.orders", "orders"]


@pytest.mark.parametrize(
    ("event", "kind", "said"),
    [
        ("acknowledged", "acknowledged", {"status": "acknowledged", "feedback": "investigating"}),
        ("status_updated", "acknowledged", {"status": "acknowledged", "feedback": "work_in_progress"}),
        ("owner_changed", "assigned", {"owner": "ada@example.com"}),
        ("external_ticket_attached", "updated", {"ticket": "DATA-7"}),
        ("marked_incident", "acknowledged", {"severity": "SEV-1", "status": "acknowledged"}),
        ("unmarked_incident", "updated", {"severity": None}),
        ("resolved", "resolved", {"status": "resolved", "feedback": "fixed"}),
    ],
)
def test_each_update_says_what_has_changed(event: str, kind: str, said: dict[str, Any]) -> None:
    one = step(sender.update("a", event))
    assert one.kind == kind
    assert said.items() <= one.said.items()
    assert one.first == {}


@pytest.mark.parametrize("feedback", [{}, {"alert_feedback": None}])
@pytest.mark.parametrize(
    ("named", "status"),
    [
        ("acknowledged", "acknowledged"),
        ("alert_acknowledged", "acknowledged"),
        ("resolved", "resolved"),
        ("Alert Resolved", "resolved"),
        ("status_updated", None),
        ("unresolved", None),
    ],
)
def test_where_nothing_else_tells_the_status_the_name_of_the_event_does(
    named: str, status: str | None, feedback: dict[str, Any]
) -> None:
    [one] = SOURCE.parse({"type": named, "payload": {"incident_id": "a"} | feedback}, {})
    assert one.said.get("status") == status
    assert "feedback" not in one.said


def test_what_is_signed_is_the_same_however_it_is_spelled() -> None:
    body = sender.update("a", "resolved")
    spaced = body.replace(b": ", b" :   ")
    assert len({SOURCE.signed(Delivery(each, {}, NOW)) for each in (body, spaced)}) == 1


@pytest.mark.parametrize("feedback", ["expected", "no_action_needed", "false_positive", "fixed"])
def test_all_ways_to_end_resolve(feedback: str) -> None:
    assert step(sender.update("a", "resolved", alert_feedback=feedback)).said["status"] == "resolved"


def test_an_alert_without_a_status_again_is_open_again() -> None:
    assert step(sender.update("a", "status_updated", alert_feedback="no_status")).kind is StepKind.REOPENED


def test_updates_are_read_beside_the_payload_too() -> None:
    body = json.loads(sender.update("a", "resolved"))
    body["alert_feedback"] = body["payload"].pop("alert_feedback")
    assert step(json.dumps(body).encode()).said["status"] == "resolved"


def test_the_connector_says_by_which_id_lily_knows_a_table() -> None:
    names = step(sender.created("a", "orders"), assets={"db:shop.orders": "my-id"}).said["names"]
    assert names[0] == "my-id"
    said = step(sender.created("a", "orders"), data_source="warehouse").said
    assert said["data_source"] == "warehouse"
    assert len(said["names"]) == 6, "ids derived from the source and the names, then the names"


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"payload": []},
        {"payload": {"incident_id": 7}},
        {"payload": {"incident_id": "a", "alert_feedback": "maybe"}},
        {"payload": {"incident_id": "a", "declared_alert_severity": "SEV-9"}},
    ],
)
def test_what_is_not_about_an_incident_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        SOURCE.parse(broken, {})


@pytest.mark.parametrize("event_list", [None, [], ["x", None, {"rule": 1, "data": [], "table_name": {}}]])
def test_odd_shapes_inside_are_left_out(event_list: Any) -> None:
    body = {"type": "open_x", "payload": {"incident_id": "a", "event_list": event_list, "url": 7}}
    [one] = SOURCE.parse(body, {})
    assert one.said == {}


@pytest.mark.parametrize(
    "config", [{"account_id": 1}, {"assets": []}, {"assets": {"a": 1}}, {"data_source": 1}, {"secret": "x"}]
)
def test_a_configuration_nobody_could_use_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="/config/"):
        SOURCE.type.check(config, [SECRET])
