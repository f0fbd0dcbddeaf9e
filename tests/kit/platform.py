"""A whole installation, started by the product's own command, and handled as its users and operators do."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil
import psycopg
from confluent_kafka import Consumer, Message, TopicPartition
from httpx import Response
from psycopg.rows import dict_row

from kit.eventually import eventually
from lily.access.tokens import mint_token
from lily.log.producer import client_config
from lily.log.topics import Topic
from lily.settings import Settings, load_settings

ROOT = Path(__file__).parents[2]
ASSETS = "/lily/v1/metadata"
HEALTH = "/lily/v1/system/health"


class Platform:
    """A running installation."""

    def __init__(self, data_dir: Path, port: int, environment: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self._environment = dict(environment or {})
        self.base_url = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(base_url=self.base_url, timeout=40)

    @cached_property
    def settings(self) -> Settings:
        return load_settings(self.data_dir)

    def lily(self, *arguments: str) -> str:
        """What `./lily …` prints."""
        command = [str(ROOT / "lily"), *arguments, "--data-dir", str(self.data_dir)]
        foreign = {name: value for name, value in os.environ.items() if not name.startswith("LILY_")}
        done = subprocess.run(command, capture_output=True, text=True, env=foreign | self._environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def token(self, tenant: str, role: str = "owner", subject: str = "ada") -> str:
        return mint_token(self.settings.auth.secret.get_secret_value(), tenant, role, subject, 3600)

    def pids(self) -> dict[str, int]:
        """The process of every part, as the supervisor knows them."""
        return dict(self._state()["children"])

    def parts(self) -> dict[str, dict[str, Any]]:
        """What the supervisor tells of every part."""
        return dict(self._state()["parts"])

    def _state(self) -> dict[str, Any]:
        return dict(json.loads((self.data_dir / "run" / "supervisor.json").read_text()))

    def descendants(self, part: str) -> list[psutil.Process]:
        return list(psutil.Process(self.pids()[part]).children(recursive=True))

    def health(self) -> dict[str, Any]:
        return dict(self.client.get(HEALTH).json())

    def wait_until_healthy(self, within: float = 120) -> None:
        eventually(lambda: self.health()["status"] == "healthy", within, (httpx.TransportError, ValueError))

    def fetch(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        url = self.settings.database.url.get_secret_value()
        with psycopg.connect(url, row_factory=dict_row, options="-c timezone=UTC") as connection:
            return connection.execute(query.encode(), parameters).fetchall()

    def find_record(self, topic: Topic, wanted: Callable[[Message], bool], within: float = 30) -> Message:
        """The first record of a topic that is wanted, waiting for it if need be."""
        kafka = self.settings.kafka
        consumer = Consumer(client_config(kafka) | {"group.id": f"test-{uuid4()}"})
        name = topic.under(kafka.topic_prefix)
        partitions = consumer.list_topics(name, timeout=10).topics[name].partitions
        consumer.assign([TopicPartition(name, partition, 0) for partition in partitions])

        def next_wanted() -> Message | None:
            while message := consumer.poll(0.2):
                if not message.error() and wanted(message):
                    return message
            return None

        try:
            return eventually(next_wanted, within)
        finally:
            consumer.close()


class Tenant:
    """A tenant of its own, so that tests sharing a platform do not meet."""

    def __init__(self, platform: Platform, name: str = "") -> None:
        self.platform = platform
        self.name = name or f"tenant-{uuid4().hex[:8]}"

    def call(self, method: str, path: str = "", *, role: str = "owner", **options: Any) -> Response:
        headers = {"authorization": f"Bearer {self.platform.token(self.name, role)}"}
        headers |= options.pop("headers", {})
        answer: Response = self.platform.client.request(method, ASSETS + path, headers=headers, **options)
        return answer

    def post(
        self, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None, **said: Any
    ) -> Response:
        return self.call("POST", json=dict(body) if body else table(**said), headers=dict(headers or {}))

    def get(self, asset_id: str = "orders", query: str = "", **headers: str) -> Response:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.call("GET", f"/{asset_id}{query}", headers=names)

    def changes(self) -> list[dict[str, Any]]:
        return self.platform.fetch("SELECT * FROM changes WHERE tenant_id = %s ORDER BY seq", self.name)


def table(asset_id: str = "orders", **said: Any) -> dict[str, Any]:
    return {"asset_id": asset_id, "asset_name": "Orders", "asset_type": "table"} | said


@contextmanager
def running_platform(data_dir: Path, environment: Mapping[str, str] | None = None) -> Iterator[Platform]:
    """`environment` is set for it as an operator would."""
    platform = Platform(data_dir, _free_port(), environment)
    try:
        platform.lily("up", "--detach", "--port", str(platform.client.base_url.port))
        yield platform
    finally:
        platform.client.close()
        platform.lily("down")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
