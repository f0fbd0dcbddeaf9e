"""The mapping for Grafana's alerts: `{"mapping": "grafana"}` in the config of a `webhook-in` connector."""

from __future__ import annotations

from typing import Any

MAPPING: dict[str, Any] = {
    "items": "alerts",
    "fields": {
        "external_id": "fingerprint",
        "title": ["annotations.summary", "labels.alertname"],
        "status": {"path": "status", "values": {"firing": "open", "resolved": "resolved"}},
        "severity": {
            "path": "labels.severity",
            "values": {
                "critical": "SEV-1",
                "page": "SEV-1",
                "high": "SEV-2",
                "error": "SEV-2",
                "warning": "SEV-3",
                "medium": "SEV-3",
                "info": "SEV-4",
                "low": "SEV-4",
            },
        },
        "owner": ["labels.owner", "labels.team"],
        "url": ["panelURL", "generatorURL"],
        "rule": ["labels.alertname"],
        "measurements": ["values"],
    },
    "names": ["labels.asset", "labels.table", "annotations.asset"],
    "time": {"open": "startsAt", "resolved": "endsAt"},
}
