"""`./lily bench incidents`: from a signed Monte Carlo webhook to the message in Slack."""

from __future__ import annotations

import argparse
import http.client
import os
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from uuid import uuid4

import httpx
import numpy as np
from pydantic_core import from_json

from bench.kit.latencies import percentiles
from bench.kit.platforms import Platform, new_tenant, platform_of, say
from bench.kit.reports import Figures, report
from kit import monte_carlo
from kit.receivers import Receiver, Reply, receiver
from kit.slack import HOOK, SIGNING_SECRET

_TABLES = 50
_SENDERS = 32
_DASHBOARD = {"asset_id": "sales", "asset_name": "sales", "asset_type": "dashboard"}
_SECRET = "the secret of this benchmark"
_PATIENCE_SECONDS = 60.0
_ALLOW = "LILY_TARGETS_ALLOW"


@dataclass(frozen=True)
class Sent:
    """One webhook: when it was due, and the incident it became."""

    due: float
    incident: str


def main() -> int:
    options = _options()
    # The Slack it tells is a fake on this machine, which an installation of its own must be allowed to reach.
    os.environ.setdefault(_ALLOW, "127.0.0.0/8")
    with platform_of(options.data_dir) as platform, receiver(lambda _: Reply(body=b"ok")) as slack:
        figures = measure(platform, slack, options)
    report(f"{options.rate:g} webhooks/s for {options.seconds:g} s", figures, options.json)
    return 1 if figures["lost"] else 0


def measure(platform: Platform, slack: Receiver, options: argparse.Namespace) -> Figures:
    tenant = new_tenant()
    headers = {"authorization": f"Bearer {platform.token(tenant)}"}
    base = f"http://127.0.0.1:{platform.port}"
    with httpx.Client(base_url=base, headers=headers, timeout=30, trust_env=False) as client:
        hook = Hook(platform.port, _prepare(client, tenant, f"{slack.url}{HOOK}"))
    hook.send(options.rate, options.warmup)
    sent = hook.send(options.rate, options.seconds)
    say(f"  {len(sent)} webhooks sent; waiting for Slack …")
    arrived = _arrivals(slack, sent)
    latencies = np.array([arrived[each.incident] - each.due for each in sent if each.incident in arrived])
    return {
        "rate": options.rate,
        "webhooks": len(sent),
        "lost": sum(each.incident not in arrived for each in sent),
        **percentiles(latencies),
        "own_installation": platform.is_own,
    }


def _prepare(client: httpx.Client, tenant: str, slack: str) -> str:
    """Tables below a dashboard, a connector for each side, a subscription; the path to send webhooks to."""

    def post(path: str, body: Any) -> dict[str, Any]:
        answer = client.post(path, json=body)
        if answer.status_code >= 300:
            raise SystemExit(f"{path}: {answer.status_code} {answer.text}")
        return dict(answer.json())

    tables = [_table(number) for number in range(_TABLES)]
    assets = [{"asset_id": name, "asset_name": name, "asset_type": "table"} for name in tables]
    post("/lily/v1/metadata", {"assets": [*assets, _DASHBOARD]})
    above = {"to_asset_id": _DASHBOARD["asset_id"], "relationship_type": "used-in"}
    edges = {"relationships": [{"from_asset_id": name} | above for name in tables]}
    post("/lily/v1/metadata/lineage", edges)
    source = {"type": "monte-carlo", "name": "monte-carlo", "secret": _SECRET}
    mapped = {"config": {"assets": {f"db:shop.{name}": name for name in tables}}}
    reporter = post(f"/lily/v1/connectors/{tenant}", source | mapped)
    secrets = {"secret": slack, "signing_secret": SIGNING_SECRET}
    target = {"type": "slack", "name": "slack", "secret": secrets}
    post(f"/lily/v1/connectors/{tenant}", target)
    wanted = {"name": "on call", "selection": {"changes": ["incident.opened"]}}
    post("/lily/v1/subscriptions", wanted | {"target": {"connector": "slack"}})
    return f"/lily/v1/webhooks/monte-carlo/{reporter['connector_id']}"


class Hook:
    """Where Monte Carlo sends to: each webhook when it is due, or as soon as one of the senders is free."""

    def __init__(self, port: int, path: str) -> None:
        self._path = path
        # A client that costs little: it shares the machine with what it measures.
        self._connections = SimpleQueue[http.client.HTTPConnection]()
        for _ in range(_SENDERS):
            self._connections.put(http.client.HTTPConnection("127.0.0.1", port, timeout=30))

    def send(self, rate: float, seconds: float) -> list[Sent]:
        bodies = [
            monte_carlo.created(str(uuid4()), f"db:shop.{_table(number % _TABLES)}")
            for number in range(int(rate * seconds))
        ]
        began = time.time()
        with ThreadPoolExecutor(_SENDERS) as senders:
            sent = list(senders.map(self._send, (began + n / rate for n in range(len(bodies))), bodies))
        return [each for each in sent if each is not None]

    def _send(self, due: float, body: bytes) -> Sent | None:
        connection = self._connections.get()
        time.sleep(max(0.0, due - time.time()))
        try:
            status, said = self._post(connection, body)
        except (
            OSError,
            http.client.HTTPException,
        ):  # kept for too long; the next request opens it anew
            connection.close()
            status, said = self._post(connection, body)
        finally:
            self._connections.put(connection)
        if status != 200:
            say(f"  refused: {status} {said[:200].decode()}")
            return None
        return Sent(due, str(from_json(said)["incidents"][0]))

    def _post(self, connection: http.client.HTTPConnection, body: bytes) -> tuple[int, bytes]:
        connection.request("POST", self._path, body, monte_carlo.signed(_SECRET, body))
        answer = connection.getresponse()
        return answer.status, answer.read()


def _arrivals(slack: Receiver, sent: list[Sent]) -> dict[str, float]:
    """When Slack received the message of each incident, by the button in it."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        found = {
            incident: each.at for each in slack.received for incident in _incidents(from_json(each.body))
        }
        if all(each.incident in found for each in sent) or time.monotonic() > deadline:
            return found
        time.sleep(1)


def _incidents(message: Mapping[str, Any]) -> list[str]:
    return [
        str(button["value"])
        for block in message["blocks"]
        if block["type"] == "actions"
        for button in block["elements"]
        if "value" in button
    ]


def _table(number: int) -> str:
    return f"table-{number}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lily bench incidents", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warmup", type=float, default=60.0)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
