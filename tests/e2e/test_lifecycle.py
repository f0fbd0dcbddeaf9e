"""The life of an installation, with everything real: start, stop, start again, side by side, remove."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from kit.eventually import eventually
from kit.processes import is_running
from lily.standalone.cache import cache_dir

ROOT = Path(__file__).parents[2]
PARTS = ("postgres", "kafka", "streams", "gateway")
#: These start beside them and are not waited for.
BESIDE = ("dispatcher", "scraper")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@dataclass(frozen=True)
class Installed:
    """An installation as its user handles it: by `./lily` and by HTTP."""

    data_dir: Path
    port: int

    def lily(self, *arguments: str, ok: bool = True) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("LILY_")}
        command = [str(ROOT / "lily"), *arguments, "--data-dir", str(self.data_dir)]
        done = subprocess.run(command, capture_output=True, text=True, env=clean, cwd="/")
        assert not ok or done.returncode == 0, done.stdout + done.stderr
        return done

    def up(self) -> None:
        self.lily("up", "--detach", "--port", str(self.port))

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.lily("status", "--json", ok=False).stdout))

    def state(self) -> dict[str, Any]:
        return dict(json.loads((self.data_dir / "run/supervisor.json").read_text()))

    def children(self) -> dict[str, int]:
        return dict(self.state()["children"])

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        token = self.lily("token", "--tenant", "acme", "--role", "owner").stdout.splitlines()[-1]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body is not None else None
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return dict(json.load(answer))


def test_bytecode_goes_to_the_cache_also_when_the_shell_wants_none_written(tmp_path: Path) -> None:
    cache = tmp_path / "lily"
    cache.mkdir()
    for known in (*cache_dir("").glob("current-*"), cache_dir("") / "java"):
        shutil.copy(known, cache)
    shell = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([ROOT / "lily", "--help"], env=shell, capture_output=True, check=True)
    kept = [path.name.partition(".")[0] for path in (cache / "bytecode").rglob("lily/apps/*.pyc")]
    assert "cli" in kept


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    installation = Installed(tmp_path_factory.mktemp("life") / "my data", free_port())
    installation.up()
    yield installation
    installation.lily("down", "--purge", ok=False)


def test_everything_is_healthy_when_up_returns(installed: Installed) -> None:
    status = installed.status()
    assert status["status"] == "healthy"
    assert set(status["processes"]) - {"standby"} == {*PARTS, *BESIDE}
    assert all(status["processes"][part]["state"] == "ready" for part in PARTS)


def test_up_on_a_running_installation_says_so_and_changes_nothing(installed: Installed) -> None:
    before = installed.children()
    answer = installed.lily("up", "--detach")
    assert "already runs" in answer.stderr
    assert f"http://127.0.0.1:{installed.port}" in answer.stdout
    assert installed.children() == before


def test_all_parts_listen_on_loopback_only(installed: Installed) -> None:
    family = psutil.Process(installed.state()["pid"]).children(recursive=True)
    listening = []
    for process in family:
        with suppress(psutil.NoSuchProcess):  # Spark's workers come and go
            listening += [c for c in process.net_connections() if c.status == psutil.CONN_LISTEN]
    assert len(listening) >= 3
    assert {connection.laddr.ip for connection in listening} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_no_secret_is_on_a_command_line(installed: Installed) -> None:
    environment = (installed.data_dir / "lily.env").read_text()
    secrets = set(re.findall(r"(?:PASSWORD|SECRET|KEY|KEYS)='([^']+)'|://\w+:([^@]+)@", environment))
    secrets = {secret.partition(":")[2] or secret for pair in secrets for secret in pair if secret}
    family = psutil.Process(installed.state()["pid"]).children(recursive=True)
    shown = ""
    for process in family:
        with suppress(psutil.NoSuchProcess):
            shown += " ".join(process.cmdline())
    assert len(secrets) >= 5
    assert [secret for secret in secrets if secret in shown] == []


def test_postgres_never_runs_as_root(installed: Installed) -> None:
    assert psutil.Process(installed.children()["postgres"]).uids().effective != 0


def test_two_installations_run_side_by_side_and_purge_removes_only_its_own(
    installed: Installed, tmp_path: Path
) -> None:
    other = Installed(tmp_path / "other", free_port())
    try:
        other.up()
        assert other.status()["status"] == "healthy"
        assert not set(other.children().values()) & set(installed.children().values())
    finally:
        children = other.children()
        other.lily("down", "--purge")
    assert not other.data_dir.exists()
    assert not [pid for pid in children.values() if is_running(pid)]
    assert installed.status()["status"] == "healthy"


def test_facts_survive_a_stop_and_nothing_else_does(installed: Installed) -> None:
    asset = {
        "asset_name": "orders",
        "asset_type": "table",
        "data_source": "shop",
        "external_id": "shop.orders",
    }
    created = installed.send("POST", "/lily/v1/metadata", asset)
    children, supervisor = installed.children(), installed.state()["pid"]
    installed.lily("down")
    assert not [pid for pid in (supervisor, *children.values()) if is_running(pid)]
    assert installed.status()["status"] == "stopped"
    installed.up()
    kept = installed.send("GET", f"/lily/v1/metadata/{created['asset_id']}")
    assert kept["asset_name"] == "orders"


def test_nothing_survives_a_killed_supervisor_and_up_recovers(installed: Installed) -> None:
    family = psutil.Process(installed.state()["pid"]).children(recursive=True)
    os.kill(installed.state()["pid"], signal.SIGKILL)
    eventually(lambda: not [process.pid for process in family if is_running(process.pid)], 20)
    assert installed.status()["status"] == "stopped"
    installed.up()
    assert installed.status()["status"] == "healthy"
