"""Declarative mappings: checked when written, and what they make of a payload."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lily.domain.connectors import SECRET
from lily.domain.errors import InvalidInput
from lily.domain.incidents import Step, StepKind, what_is_wrong
from lily.ingest.webhooks.generic import SOURCE
from lily.ingest.webhooks.sources import Delivery

GRAFANA = json.loads((Path(__file__).parents[2] / "payloads" / "grafana_alerts.json").read_text())
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLAIN = {"fields": {"external_id": "id"}}


def steps(payload: dict[str, Any], mapping: Any) -> list[Step]:
    SOURCE.type.check({"mapping": mapping}, [SECRET])
    found = list(SOURCE.parse(payload, {"mapping": mapping}))
    assert not any(what_is_wrong(step.said) or what_is_wrong(step.first) for step in found)
    return found


def test_grafanas_alerts_are_understood_as_shipped() -> None:
    firing, resolved = steps(GRAFANA, "grafana")
    assert (firing.kind, firing.external_id) == (StepKind.OPENED, "c6eadffa33fcdf37")
    assert firing.said["title"] == "orders has fewer rows than yesterday"
    assert (firing.said["severity"], firing.said["owner"]) == ("SEV-1", "data")
    assert firing.said["names"] == ["shop.orders"]
    assert {"metric": "C", "value": 1} in firing.said["measurements"]
    assert firing.at == datetime(2026, 1, 12, 7, 51, 3, 157076, tzinfo=UTC)
    assert (resolved.kind, resolved.said["status"]) == (StepKind.RESOLVED, "resolved")
    assert resolved.at == datetime(2026, 1, 12, 8, 6, 3, tzinfo=UTC)
    assert resolved.said["title"] == "Late"


def test_the_first_path_that_leads_somewhere_counts_and_words_are_translated() -> None:
    mapping = {
        "items": "data.things",
        "fields": {
            "external_id": ["missing", "ids.0"],
            "status": {"path": "s", "values": {"1": "resolved"}, "default": "open"},
            "rule": "r",
            "measurements": "m",
        },
    }
    thing = {"ids": ["x"], "s": 1, "r": {"a": 1}, "m": 7}
    [step] = steps({"data": {"things": [thing]}}, mapping)
    assert (step.external_id, step.said["status"]) == ("x", "resolved")
    assert (step.said["rule"], step.said["measurements"]) == ({"a": 1}, [{"value": 7}])
    [other] = steps({"data": {"things": [thing | {"s": "?"}]}}, mapping)
    assert (other.kind, other.first) == (StepKind.OPENED, {"status": "open"})


@pytest.mark.parametrize("payload", [{}, {"things": []}, {"things": [{}]}, {"things": [{"id": 1}] * 501}])
def test_a_payload_the_mapping_does_not_fit_is_refused(payload: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        steps(payload, {"items": "things", "fields": {"external_id": "id"}})


@pytest.mark.parametrize(
    ("where", "mapping"),
    [
        ("mapping", None),
        ("mapping", "prometheus"),
        ("mapping", []),
        ("mapping/code", PLAIN | {"code": "1"}),
        ("mapping/fields", {"fields": {}}),
        ("mapping/fields/colour", {"fields": {"external_id": "id", "colour": "c"}}),
        ("mapping/fields/title", {"fields": {"external_id": "id", "title": ""}}),
        ("mapping/fields/title", {"fields": {"external_id": "id", "title": ["a..b"]}}),
        ("mapping/fields/title/eval", {"fields": {"external_id": "id", "title": {"eval": "x"}}}),
        ("mapping/fields/status/values", {"fields": {"external_id": "id", "status": "s"}}),
        (
            "mapping/fields/status/values",
            {"fields": {"external_id": "i", "status": {"path": "s", "values": {"a": "b"}}}},
        ),
        (
            "mapping/fields/severity/values",
            {"fields": {"external_id": "i", "severity": {"path": "s", "values": {"a": 1}}}},
        ),
        ("mapping/time/closed", PLAIN | {"time": {"closed": "c"}}),
        ("mapping/names", PLAIN | {"names": [1]}),
        ("mapping/items", PLAIN | {"items": 1}),
    ],
)
def test_a_mapping_is_checked_when_it_is_written(where: str, mapping: Any) -> None:
    with pytest.raises(InvalidInput, match=f"^/config/{where}:"):
        SOURCE.type.check({"mapping": mapping}, [SECRET])


@pytest.mark.parametrize(
    "auth", ["x", {"kind": "none"}, {"kind": "hmac-sha256"}, {"kind": 1}, {"token": "x"}]
)
def test_how_deliveries_prove_themselves_is_checked_too(auth: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^/config/auth"):
        SOURCE.type.check({"mapping": PLAIN, "auth": auth}, [SECRET])


def authentic(headers: dict[str, str], **auth: str) -> bool:
    return SOURCE.is_authentic(Delivery(b"{}", headers, NOW), {"auth": auth}, {SECRET: "s"})


def test_a_bearer_secret_or_a_signature_proves_a_delivery() -> None:
    assert authentic({"authorization": "Bearer s"})
    assert not authentic({"authorization": "Bearer t"})
    assert not authentic({})
    mac = hmac.new(b"s", b"{}", hashlib.sha256).hexdigest()
    signed = {"kind": "hmac-sha256", "header": "X-Signature"}
    assert authentic({"x-signature": mac}, **signed)
    assert authentic({"x-signature": f"sha256={mac}"}, **signed, prefix="sha256=")
    assert not authentic({"x-signature": mac[:-1]}, **signed)
    assert not authentic({"authorization": "Bearer s"}, **signed)


def test_a_signed_timestamp_must_be_of_now() -> None:
    auth = {"kind": "hmac-sha256", "header": "X-Signature", "timestamp_header": "X-Time"}
    for age, expected in ((0, True), (299, True), (301, False), (-301, False)):
        stamp = str(int(NOW.timestamp()) - age)
        mac = hmac.new(b"s", f"{stamp}:{{}}".encode(), hashlib.sha256).hexdigest()
        assert authentic({"x-signature": mac, "x-time": stamp}, **auth) is expected
    assert not authentic({"x-signature": mac}, **auth)
