"""What access costs a reader: the gateway beside one that asks and decides nothing, and long lists."""

from __future__ import annotations

import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bench.kit.platforms import say
from bench.kit.reports import Figures
from lily.access.tokens import mint_token
from lily.repositories.postgres.migrations import migrate_database
from lily.repositories.postgres.roles import GatewayRole
from lily.settings import Settings, load_settings
from lily.standalone.ports import free_port
from lily.standalone.services import start_services

TENANT, ASSETS, PAGE, ROUNDS, READS = "bench", 10_000, 1_000, 9, 300
#: Other people's policies, which cost a list nothing, and those of whoever lists.
OTHERS_POLICIES = 1_000


def measure_gateways(seed: int) -> Figures:
    """Reads and lists over HTTP, from a PostgreSQL and gateways of their own."""
    os.environ.setdefault("LILY_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9")  # nothing is written
    with tempfile.TemporaryDirectory(prefix="lily-bench-") as folder:
        services = start_services(Path(folder))
        try:
            settings = load_settings(Path(folder))
            _fill(settings, random.Random(seed))
            with _gateway(settings, "lily.apps.gateway") as guarded:
                figures = _lists(settings, guarded)
                with _gateway(settings, "bench.kit.open_gateway") as unguarded:
                    figures |= _reads(settings, guarded, unguarded)
            return figures
        finally:
            services.stop()


def _reads(settings: Settings, guarded: int, unguarded: int) -> Figures:
    """The median of GET /metadata/{id} with and without access, in turns."""
    taken: dict[int, list[float]] = {guarded: [], unguarded: []}
    for _ in range(ROUNDS):
        for port, times in taken.items():
            client = Client(port, _token(settings, "analyst"))
            client.get("/lily/v1/metadata/asset-00000")
            for number in range(READS):
                started = time.perf_counter()
                client.get(f"/lily/v1/metadata/asset-{number:05}")
                times.append(time.perf_counter() - started)
    with_access, without = (statistics.median(times) * 1000 for times in taken.values())
    return {
        "get_p50_ms": round(with_access, 3),
        "get_p50_ms_without_access": round(without, 3),
        "get_overhead_percent": round(100 * (with_access / without - 1), 1),
    }


def _lists(settings: Settings, port: int) -> Figures:
    """All 10,000 assets in pages of 1,000, in turns by an owner and by somebody who sees all by policies."""
    taken: dict[str, list[float]] = {"owner": [], "analyst": [], "contained": []}
    clients = {role: Client(port, _token(settings, role)) for role in taken}
    for _ in range(ROUNDS):
        for role, client in clients.items():
            started = time.perf_counter()
            found = client.list_all()
            taken[role].append(time.perf_counter() - started)
            if found != ASSETS:
                raise SystemExit(f"{role} sees {found:,} assets, not {ASSETS:,}")
    median = {role: statistics.median(times) for role, times in taken.items()}
    return {
        "list_10000_owner_ms": round(median["owner"] * 1000, 1),
        "list_10000_ratio": round(median["analyst"] / median["owner"], 2),
        "list_10000_ratio_contained": round(median["contained"] / median["owner"], 2),
    }


class Client:
    """One connection that is kept."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"authorization": f"Bearer {token}"}

    def get(self, path: str) -> bytes:
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"GET {path}: {answer.status} {body[:200]!r}")
        return body

    def list_all(self) -> int:
        found, token = 0, ""
        while True:
            page = json.loads(self.get(f"/lily/v1/metadata?page_size={PAGE}&page_token={token}"))
            found += len(page["assets"])
            token = page["next_page_token"]
            if not token:
                return found


def _token(settings: Settings, role: str) -> str:
    return mint_token(settings.auth.secret.get_secret_value(), TENANT, role, role, 3600)


@contextmanager
def _gateway(settings: Settings, module: str) -> Iterator[int]:
    port = free_port()
    environment = os.environ | {
        "LILY_GATEWAY_PORT": str(port),
        "LILY_TELEMETRY_LOG_LEVEL": "WARNING",
        "LILY_QUOTA_REQUESTS_PER_SECOND": "1000000",
    }
    command = [sys.executable, "-m", module, "--data-dir", str(settings.data_dir)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        _wait_until_ready(port)
        yield port
    finally:
        process.terminate()
        process.wait(30)


def _wait_until_ready(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            Client(port, "").get("/livez")
            return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("the gateway does not start")


def _fill(settings: Settings, rng: random.Random) -> None:
    """10,000 assets in 100 tables; two roles that see all of them, each by policies of its own."""
    database = settings.database
    role = GatewayRole(database.gateway_role, database.gateway_password.get_secret_value())
    url = database.url.get_secret_value()
    migrate_database(url, role)
    say(f"Filling in {ASSETS:,} assets …")
    with psycopg.connect(url) as connection:
        for number in range(ASSETS):
            _insert(connection, "assets", _asset(number))
        for number in range(ASSETS):
            _insert(connection, "edges", _edge(f"table-{number % 100}", f"asset-{number:05}"))
        for number in range(100):
            _insert(connection, "edges", _edge(f"schema-{number % 5}", f"table-{number}"))
        for policy in (*_others(rng), *_by_attributes(), *_by_containment()):
            _insert(connection, "policies", {"tenant_id": TENANT, "created_by": "bench"} | policy)
        connection.commit()
        connection.autocommit = True
        connection.execute("ANALYZE")


def _asset(number: int) -> dict[str, Any]:
    return {
        "tenant_id": TENANT,
        "asset_id": f"asset-{number:05}",
        "asset_name": f"Asset {number}",
        "asset_type": ("column", "table", "dashboard")[number % 3],
        "asset_owner": f"user{number % 40}",
        "description": "An asset as long as assets are, more or less: a sentence, and then another one.",
        "data_source": f"source{number % 4}",
        "user_tags": [f"tag{number % 10}", f"tag{10 + number % 7}"],
        "metadata": json.dumps({"rows": number, "format": "parquet", "nullable": True}),
        "created_at": "2026-01-01T00:00:00Z",
        "version": 1,
        "fields": 3,
        "clock_time": "2026-01-01T00:00:00Z",
        "clock_id": "00000000-0000-7000-8000-000000000000",
    }


def _edge(container: str, contained: str) -> dict[str, Any]:
    names = {"from_id": container, "to_id": contained, "relationship_type": "contains"}
    return {"tenant_id": TENANT} | names


def _others(rng: random.Random) -> Iterator[dict[str, Any]]:
    for _ in range(OTHERS_POLICIES):
        yield _policy(f"role{rng.randrange(40)}", "tag", f"tag{rng.randrange(100)}")


def _by_attributes() -> Iterator[dict[str, Any]]:
    """Three quarters by source, the rest by tag; what is forbidden is looked for in vain."""
    for number in range(3):
        yield _policy("analyst", "source", f"source{number}")
    for number in range(10):
        yield _policy("analyst", "tag", f"tag{number}")
    for number in range(20):
        yield _policy("analyst", "tag", f"secret{number}", "forbid")
        yield _policy("analyst", "type", f"secret{number}", "forbid")
        yield _policy("analyst", "asset", f"secret{number}", "forbid")


def _by_containment() -> Iterator[dict[str, Any]]:
    """By schemas two levels above; and for every asset it is looked up that it is in no forbidden one."""
    for number in range(5):
        yield _policy("contained", "contained", f"schema-{number}")
        yield _policy("contained", "contained", f"secret-{number}", "forbid")


def _policy(role: str, scope: str, value: str, effect: str = "allow") -> dict[str, Any]:
    return {"role": role, "access_type": "READ", "effect": effect, "scope": scope, "value": value}


def _insert(connection: psycopg.Connection, table: str, row: dict[str, Any]) -> None:
    names, places = ", ".join(row), ", ".join(["%s"] * len(row))
    statement = f"INSERT INTO {table} ({names}) VALUES ({places})"
    connection.execute(statement.encode(), list(row.values()))
