"""Monte Carlo: alerts and what becomes of them, signed over the url-encoded body.

An update carries what has changed (`alert_feedback`, `declared_alert_severity`, `owner`), in its payload or
beside it; where it says nothing about the status, the word in its `type` does. It has no time: of two updates
the one that arrives later counts.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import Any

from lily.domain.connectors import SECRET, ConnectorType
from lily.domain.incidents import SEVERITIES, Status, Step, StepKind, kind_of
from lily.ingest.webhooks.sources import (
    Config,
    Delivery,
    Secrets,
    WebhookSource,
    check_keys,
    check_naming,
    form_of,
    named,
    same,
    unread,
    wrong,
)

SIGNATURE = "x-mcd-signature"
_CONFIG = ("account_id", "data_source", "assets")
#: What becomes of an alert, in Monte Carlo's words and in ours.
FEEDBACK = {
    "no_status": Status.OPEN,
    "investigating": Status.ACKNOWLEDGED,
    "work_in_progress": Status.ACKNOWLEDGED,
    "fixed": Status.RESOLVED,
    "expected": Status.RESOLVED,
    "no_action_needed": Status.RESOLVED,
    "false_positive": Status.RESOLVED,
}
#: The same by the name of what happened, which comes without a feedback where nobody gave any.
_EVENTS = {"acknowledged": Status.ACKNOWLEDGED, "resolved": Status.RESOLVED}
_DIGITS = 128  # of SHA-512, in hexadecimal
_MOST = 64
_UPDATES = ("alert_feedback", "declared_alert_severity", "owner")
_TICKETS = ("external_ticket", "external_ticket_url", "ticket_url", "ticket")

Fields = dict[str, Any]


def signature(secret: str, payload: Fields) -> str:
    """As Monte Carlo computes it: over the parsed body, url-encoded."""
    return _sign(secret, form_of(payload))


def _sign(secret: str, form: bytes) -> str:
    return hmac.digest(secret.encode(), form, hashlib.sha512).hex()


def is_authentic(delivery: Delivery, _config: Config, secrets: Secrets) -> bool:
    given = delivery.headers.get(SIGNATURE, "")
    return len(given) == _DIGITS and same(given, _sign(secrets[SECRET], delivery.form))


def signed(delivery: Delivery) -> bytes:
    """Not the body: its white space, and how its numbers are written, are not signed."""
    return delivery.form


def parse(payload: Fields, config: Config) -> Sequence[Step]:
    """The one step a webhook reports."""
    alert = payload.get("payload")
    external_id = alert.get("incident_id") if isinstance(alert, dict) else None
    if not isinstance(alert, dict) or not isinstance(external_id, str) or not external_id:
        raise unread("payload.incident_id is missing")
    about = _about(alert, config)
    ticket = next((alert[name] for name in _TICKETS if isinstance(alert.get(name), str)), None)
    if ticket:
        about["ticket"] = ticket
    changed = _changed(payload, alert)
    if not changed and _is_opening(payload):
        return [Step(external_id, StepKind.OPENED, about, {"status": Status.OPEN.value})]
    return [Step(external_id, kind_of(changed.get("status"), list(changed)), about | changed)]


def _is_opening(payload: Fields) -> bool:
    return str(payload.get("type", "")).startswith(("open", "created", "alert_created"))


def _changed(payload: Fields, alert: Fields) -> Fields:
    """What an update says; a new alert carries its fields as null, or not at all."""
    given = {name: each[name] for each in (payload, alert) for name in _UPDATES if name in each}
    if _is_opening(payload) and all(value is None for value in given.values()):
        return {}
    said: Fields = {}
    if (feedback := given.get("alert_feedback")) is not None:
        if feedback not in FEEDBACK:
            raise unread(f"alert_feedback {str(feedback)[:64]!r} is none of {', '.join(FEEDBACK)}")
        said |= {"feedback": feedback, "status": FEEDBACK[feedback].value}
    elif (status := _status_by_type(payload)) is not None:
        said["status"] = status.value
    if "declared_alert_severity" in given:
        severity = given["declared_alert_severity"]
        if severity is not None and severity not in SEVERITIES:
            raise unread(f"declared_alert_severity {str(severity)[:64]!r} is none of {', '.join(SEVERITIES)}")
        said["severity"] = severity
    if "owner" in given:
        said["owner"] = _text(given["owner"])
    return said


def _status_by_type(payload: Fields) -> Status | None:
    words = re.findall("[a-z]+", str(payload.get("type", "")).lower())
    return next((_EVENTS[word] for word in words if word in _EVENTS), None)


def _about(alert: Fields, config: Config) -> Fields:
    """What the alert is about, as far as this payload tells."""
    events = _objects(alert.get("event_list"))
    rules = [rule for holder in (*events, alert) if isinstance(rule := holder.get("rule"), dict)]
    about = {
        "title": _title(events, rules),
        "url": _text(alert.get("url")),
        "rule": _rule(rules[0]) if rules else None,
        "measurements": [measured for event in events for measured in _measurements(event)][:_MOST],
    }
    return {name: value for name, value in about.items() if value} | named(
        _tables(alert, events, rules), config
    )


def _title(events: list[Fields], rules: list[Fields]) -> str | None:
    if rules and (described := _text(rules[0].get("description"))):
        return described
    for event in events:
        table, details = _text(event.get("table_name")), _text(event.get("event_details"))
        metric = _text(_data(event).get("metric_display_name"))
        if told := details or metric:
            return f"{told} on {table}" if table else told
        if table:
            return table
    return None


def _rule(rule: Fields) -> Fields:
    comparisons = _objects(rule.get("comparisons"))
    shown = ("metric", "operator", "threshold", "field", "full_table_id")
    return {
        "id": _text(rule.get("uuid")),
        "type": _text(rule.get("rule_type")),
        "description": _text(rule.get("description")),
        "comparisons": [{name: each.get(name) for name in shown} for each in comparisons[:32]],
    }


def _measurements(event: Fields) -> list[Fields]:
    data = _data(event)
    hits = _objects(data.get("hits"))
    shown = ("field", "value", "measurement_timestamp")
    metric = _text(data.get("metric_display_name"))
    return [{"metric": metric} | {name: hit.get(name) for name in shown} for hit in hits[:32]]


def _tables(alert: Fields, events: list[Fields], rules: list[Fields]) -> list[str | None]:
    """What the tables are called, the longest names first: they say most."""
    group = _text(alert.get("group_id"))
    comparisons = [each for rule in rules for each in _objects(rule.get("comparisons"))]
    full = [_text(each.get("full_table_id")) for each in (*comparisons, *events)]
    plain = [_text(event.get("table_name")) for event in events]
    joined = [f"{group}.{name}" for name in plain if group and name]
    return [*full, *joined, *plain]


def _objects(value: object) -> list[Fields]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _data(event: Fields) -> Fields:
    data = event.get("data")
    return data if isinstance(data, dict) else {}


def _text(value: object) -> str | None:
    return value[:4096] if isinstance(value, str) and value else None


def check_config(config: Config) -> None:
    check_keys(config, _CONFIG)
    check_naming(config)
    if not isinstance(config.get("account_id", ""), str):
        raise wrong("account_id", "must be the id of an account")


SOURCE = WebhookSource(
    type=ConnectorType("monte-carlo", {SECRET: True}, check_config, destinations=frozenset()),
    is_authentic=is_authentic,
    parse=parse,
    signed=signed,
)
