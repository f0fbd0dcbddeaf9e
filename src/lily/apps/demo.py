"""The demo of `lily up --demo`: a tenant with a scraped warehouse, a dashboard, an incident and a rule.

Everything but the warehouse itself is said through the public interface. Saying it again changes nothing.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any

from lily.apps.demo_warehouse import DATABASE, OWNER, Warehouse
from lily.apps.up import gateway_opener, own_url
from lily.domain.assets import derive_asset_id
from lily.domain.errors import Unavailable

TENANT = "demo"
SOURCE, INCIDENTS = "warehouse", "monte-carlo"
_JOB_SECONDS = 120.0
_DASHBOARD = "sales-dashboard"
#: Which columns of the warehouse the dashboard's fields show.
_FIELDS = {"Contact": "top_customers.contact", "Revenue": "top_customers.revenue"}
_RULE = {"tag": "PII", "scope": "source", "value": SOURCE, "mask": {"kind": "partial", "first": 1, "last": 0}}


def asset_id(name: str) -> str:
    """The asset of a table or column of the warehouse: `customers`, `customers.email`; '' is the database."""
    return derive_asset_id(SOURCE, f"{DATABASE}.public.{name}" if name else DATABASE)


class Demo:
    """Speaks to the gateway as the tenant's owner."""

    def __init__(self, port: int, token: str, warehouse: Warehouse) -> None:
        self._url = own_url(port)
        self._opener = gateway_opener()
        self._token = token
        self._warehouse = warehouse
        self._passwords = warehouse.passwords

    def set_up(self) -> None:
        """Return when the demo is as README tells of it."""
        self._warehouse.ensure()
        self._call("PUT", f"/lily/v1/access/scraper-policies/{SOURCE}", {"allowed_columns": [asset_id("")]})
        connector = self._connector("postgres", SOURCE, self._passwords.owner, self._config())
        job = self._call("POST", f"/lily/v1/connectors/{TENANT}/{connector}/scrape")
        self._say_dashboard()
        self._ensure_rule()
        self._connector(INCIDENTS, INCIDENTS, self._passwords.webhook, {"data_source": SOURCE})
        self.report_incident("customers")
        self._wait(connector, job["job_id"])

    def report_incident(self, table: str) -> dict[str, Any]:
        """Send, signed, what Monte Carlo sends when a table has too few rows; returns the answer."""
        from lily.ingest.webhooks.monte_carlo import SIGNATURE, signature  # slow to import

        body = incident(table)
        signed = {SIGNATURE: signature(self._passwords.webhook, body)}
        return self._send("POST", "/webhook/monte-carlo", json.dumps(body).encode(), signed)

    def _config(self) -> dict[str, Any]:
        return {
            "host": self._warehouse.host,
            "port": self._warehouse.port,
            "database": DATABASE,
            "user": OWNER,
        }

    def _connector(self, kind: str, name: str, secret: str, config: dict[str, Any]) -> str:
        """The id of the tenant's connector of this name, which is as described then."""
        place = f"/lily/v1/connectors/{TENANT}"
        there = {each["name"]: each for each in self._call("GET", place)["connectors"]}
        if name in there:
            one = f"{place}/{there[name]['connector_id']}"
            return str(self._call("PATCH", one, {"secret": secret, "config": config})["connector_id"])
        said = {"type": kind, "name": name, "secret": secret, "config": config}
        return str(self._call("POST", place, said)["connector_id"])

    def _say_dashboard(self) -> None:
        """A dashboard above the warehouse, as a BI tool would tell of it."""
        assets = [
            {"asset_id": _DASHBOARD, "asset_name": "Sales", "asset_type": "dashboard", "asset_owner": "ada"}
        ]
        assets += [
            {"asset_id": f"{_DASHBOARD}.{name}", "asset_name": name, "asset_type": "bi_field"}
            for name in _FIELDS
        ]
        edges = [_edge(_DASHBOARD, f"{_DASHBOARD}.{name}", "contains") for name in _FIELDS]
        edges += [_edge(asset_id(of), f"{_DASHBOARD}.{name}", "used-in") for name, of in _FIELDS.items()]
        edges.append(_edge(asset_id("top_customers"), _DASHBOARD, "used-in"))
        self._call("POST", "/lily/v1/metadata", {"assets": assets})
        self._call("POST", "/lily/v1/metadata/lineage", {"relationships": edges})

    def _ensure_rule(self) -> None:
        rules = self._call("GET", "/lily/v1/protection/rules")["rules"]
        if not any((each["tag"], each.get("value")) == (_RULE["tag"], _RULE["value"]) for each in rules):
            self._call("POST", "/lily/v1/protection/rules", _RULE)

    def _wait(self, connector: str, job_id: str) -> None:
        deadline = time.monotonic() + _JOB_SECONDS
        place = f"/lily/v1/connectors/{TENANT}/{connector}/jobs/{job_id}"
        while (job := self._call("GET", place))["state"] not in ("succeeded", "failed"):
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"the demo's warehouse is not read after {_JOB_SECONDS:.0f} s: {job['error']}"
                )
            time.sleep(0.1)
        if job["state"] == "failed":
            raise Unavailable(f"the demo's warehouse cannot be read: {job['error']}")

    def _call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        content = None if body is None else json.dumps(body).encode()
        return self._send(method, path, content, {"Authorization": f"Bearer {self._token}"})

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> dict[str, Any]:
        # What is said is safe when it is answered; only the job is waited for.
        named = headers | {"Content-Type": "application/json", "Prefer": "respond-async"}
        request = urllib.request.Request(self._url + path, body, named, method=method)
        try:
            with self._opener.open(request, timeout=30) as answer:
                return dict(json.loads(answer.read() or b"{}"))
        except urllib.error.HTTPError as error:
            raise Unavailable(f"the demo cannot {method} {path}: {error.read().decode()[:500]}") from None
        except OSError as error:
            raise Unavailable(f"the gateway does not answer ({error}); see `lily status`") from None


def incident(table: str) -> dict[str, Any]:
    """What Monte Carlo reports when a table of the warehouse has fewer rows than it should."""
    event = {"table_name": f"{DATABASE}.public.{table}", "event_details": "Has 4 rows vs. 101 expected"}
    return {
        "version": "v0.1",
        "type": "open_anomaly_incident",
        "action": "incident",
        "account": {"id": "00000000-0000-0000-0000-000000000000"},
        "payload": {
            "incident_id": f"demo-{table}",
            "url": f"https://getmontecarlo.com/alerts/demo-{table}",
            "alert_feedback": None,
            "declared_alert_severity": None,
            "group_id": None,
            "event_list": [event],
        },
    }


def _edge(upper: str, lower: str, kind: str) -> dict[str, str]:
    return {"from_asset_id": upper, "to_asset_id": lower, "relationship_type": kind}
