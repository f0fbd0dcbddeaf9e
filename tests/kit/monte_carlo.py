"""Monte Carlo as a sender: signs as its documentation says, and reports an alert's life in its eight ways."""

from __future__ import annotations

import hashlib
import hmac
import json
import urllib.parse
from pathlib import Path
from typing import Any

#: The documentation's own example.
RULE_BREACH = (Path(__file__).parents[1] / "payloads" / "monte_carlo_rule_breach.json").read_bytes()
ACCOUNT = "9a59c6f1-203a-4c72-8cd7-132db7f21b92"
UPDATES: dict[str, dict[str, Any]] = {
    "acknowledged": {"alert_feedback": "investigating"},
    "status_updated": {"alert_feedback": "work_in_progress"},
    "owner_changed": {"owner": "ada@example.com"},
    "external_ticket_attached": {"external_ticket": "DATA-7"},
    "marked_incident": {"alert_feedback": "investigating", "declared_alert_severity": "SEV-1"},
    "unmarked_incident": {"declared_alert_severity": None},
    "resolved": {"alert_feedback": "fixed"},
}


def signed(secret: str, body: bytes) -> dict[str, str]:
    """The headers Monte Carlo sends with this body."""
    text = urllib.parse.urlencode(json.loads(body)).encode("utf8")
    mac = hmac.new(secret.encode(), text, hashlib.sha512).hexdigest()
    return {"content-type": "application/json", "x-mcd-signature": mac}


def created(alert: str, table: str, group: str = "db:shop") -> bytes:
    """An anomaly on a table, just found."""
    event = {"event_details": "Has 42 rows vs. 101 expected", "table_name": table}
    said = {"alert_feedback": None, "declared_alert_severity": None, "event_list": [event], "group_id": group}
    return _body(alert, "open_anomaly_incident", said)


def update(alert: str, event: str, **said: Any) -> bytes:
    """What becomes of it; `event` is one of UPDATES, by Monte Carlo's names of them."""
    return _body(alert, event, UPDATES[event] | said)


def _body(alert: str, kind: str, said: dict[str, Any]) -> bytes:
    payload = {"incident_id": alert, "url": f"https://getmontecarlo.com/alerts/{alert}"} | said
    body = {
        "account": {"id": ACCOUNT},
        "action": "incident",
        "payload": payload,
        "type": kind,
        "version": "v0.1",
    }
    return json.dumps(body).encode()
