"""A gateway against the real PostgreSQL and Kafka, with rows put in its tables as the pipeline would."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from uuid import UUID

import grpc
import httpx
import psycopg
import uvicorn
from confluent_kafka import Consumer, TopicPartition
from httpx import Response

from kit.eventually import eventually
from lily.access.tokens import mint_token
from lily.apps.gateway import build_app
from lily.apps.listeners import http_options
from lily.domain.event_ids import new_batch_id
from lily.log.producer import client_config
from lily.log.topics import Topic
from lily.serving.grpc import access_pb2
from lily.settings import Settings

ASSETS = "/lily/v1/metadata"
ORDERS = {"asset_id": "orders", "asset_name": "Orders", "asset_type": "table"}


class Gateway:
    """A client of a running gateway, and the means to look behind it."""

    def __init__(self, client: httpx.Client, settings: Settings) -> None:
        self.client = client
        self.settings = settings

    @cached_property
    def channel(self) -> Any:
        """To its gRPC services; closed with the gateway."""
        return grpc.insecure_channel(f"127.0.0.1:{self.settings.gateway.grpc_port}")

    def token(self, tenant: str = "acme", role: str = "owner", subject: str = "ada") -> str:
        return mint_token(self.settings.auth.secret.get_secret_value(), tenant, role, subject, 60)

    def call(self, method: str, path: str, *, as_: str | None = None, **options: Any) -> Response:
        headers = {"authorization": f"Bearer {as_ or self.token()}"} | options.pop("headers", {})
        response: Response = self.client.request(method, path, headers=headers, **options)
        return response

    def execute(self, statement: str, *parameters: Any) -> None:
        with psycopg.connect(self.settings.database.url.get_secret_value(), autocommit=True) as connection:
            connection.execute(statement.encode(), parameters)

    def fetch(self, statement: str, *parameters: Any) -> list[Any]:
        with psycopg.connect(self.settings.database.url.get_secret_value()) as connection:
            return connection.execute(statement.encode(), parameters).fetchall()

    def applied(self, event_id: UUID | str, outcome: str, **columns: Any) -> None:
        """Record an event as applied and notify, as the pipeline does at the end of a batch."""
        row = {
            "lane": "structural",
            "tenant_id": "acme",
            "asset_id": "orders",
            "event_id": str(event_id),
            "event_time": datetime(2026, 1, 1, tzinfo=UTC),
            "outcome": outcome,
            "version": 1,
            "fields": 0,
            "actor": "ada",
        } | columns
        self.insert("changes", row)
        self.execute(
            "INSERT INTO propagation_positions SELECT lane, max(seq) FROM changes GROUP BY lane"
            " ON CONFLICT (lane) DO UPDATE SET seq = excluded.seq"
        )
        self.execute("NOTIFY lily_applied")

    def stored(self, **columns: Any) -> None:
        """An asset as it is after its last event."""
        row = {
            "tenant_id": "acme",
            "asset_id": "orders",
            "asset_name": "Orders",
            "asset_type": "table",
            "created_at": datetime(2026, 1, 1, tzinfo=UTC),
            "version": 1,
            "fields": 3,
            "clock_time": datetime(2026, 1, 1, tzinfo=UTC),
            "clock_id": str(new_batch_id(1)),
        } | columns
        self.insert("assets", row)

    def insert(self, table: str, row: dict[str, Any]) -> None:
        names = ", ".join(f'"{name}"' for name in row)
        self.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join(['%s'] * len(row))})", *row.values())

    def logged(self, topic: Topic = Topic.STRUCTURAL_ASSETS) -> list[Any]:
        """Every record of a topic, oldest first within its partition."""
        settings = self.settings.kafka
        at_once = {"group.id": "none", "enable.partition.eof": True, "fetch.wait.max.ms": 10}
        consumer = Consumer(client_config(settings) | at_once)
        name = topic.under(settings.topic_prefix)
        partitions = list(consumer.list_topics(name, timeout=10).topics[name].partitions)
        consumer.assign([TopicPartition(name, partition, 0) for partition in partitions])
        messages, ended = [], 0
        while ended < len(partitions):
            message = consumer.poll(10)
            assert message is not None, "the log did not answer"
            if message.error():
                ended += 1
            else:
                messages.append(message)
        consumer.close()
        return messages


@contextmanager
def gateway(settings: Settings, port: int = 0) -> Iterator[Gateway]:
    """The gateway's own application on its own server, in a thread of this process."""
    port = port or free_port()
    tls = settings.gateway.tls_certificate
    options = http_options(settings.gateway) | {"port": port}
    server = uvicorn.Server(uvicorn.Config(build_app(settings), **options))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        with httpx.Client(base_url=url, timeout=40) as client:
            if tls:  # whom it lets in is for the test to say
                eventually(
                    lambda: socket.create_connection(("127.0.0.1", port)).close() is None, 20, (OSError,)
                )
            else:
                eventually(lambda: client.get("/livez").is_success, ignoring=(httpx.TransportError,))
            yield (api := Gateway(client, settings))
            if "channel" in vars(api):
                api.channel.close()
    finally:
        server.should_exit = True
        thread.join(20)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def with_grpc(settings: Settings) -> Settings:
    """The same, with gRPC on a free port."""
    listening = settings.gateway.model_copy(update={"grpc_port": free_port()})
    return settings.model_copy(update={"gateway": listening})


def grpc_decide(api: Gateway, token: str, questions: list[Any], who: Any = None, purpose: str = "") -> Any:
    """Ask the gateway's gRPC service for decisions."""
    request = access_pb2.DecideRequest(questions=questions, principal=who)
    return grpc_ask(
        api, "lily.access.v1.AccessService/Decide", request, access_pb2.DecideResponse, token, purpose
    )


def grpc_ask(
    api: Gateway, method: str, request: Any, gives: Any, token: str, purpose: str = "", **said: str
) -> Any:
    """What a method of the gateway's gRPC services answers; `said` is further metadata."""
    metadata = [("authorization", f"Bearer {token}")] if token else []
    metadata += [("lily-purpose", purpose)] if purpose else []
    metadata += [(name.replace("_", "-"), value) for name, value in said.items()]
    call = api.channel.unary_unary(
        f"/{method}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=gives.FromString,
    )
    return call(request, metadata=metadata, timeout=20)


def problem(response: Response, status: int, code: str) -> dict[str, Any]:
    """The problem document of a response, checked for what every problem has."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document["status"] == status
    assert document["code"] == code
    assert document["type"] == f"/problems/{code}"
    assert document["trace_id"] == response.headers["x-request-id"]
    assert document["instance"].startswith("/")
    assert document["title"]
    assert document["detail"]
    return document
