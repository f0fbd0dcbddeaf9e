"""A real Kafka broker for one installation: KRaft, one JVM, loopback only, with a password."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import struct
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from lily.domain.errors import MisconfiguredError, Unavailable
from lily.log.topics import MAX_RECORD_BYTES
from lily.standalone.artefacts import ensure
from lily.standalone.environment import KAFKA_URL
from lily.standalone.files import write_atomically
from lily.standalone.installations import Installation
from lily.standalone.parts import Part
from lily.standalone.ports import LOOPBACK, free_port

JVM_FLAGS = [
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
]


def kafka_part(installation: Installation, environment: Mapping[str, str]) -> Part:
    """The broker as the supervisor runs it."""
    address = environment[KAFKA_URL]
    properties = installation.run / "kafka.properties"
    write_atomically(properties, _properties(installation, environment))
    return Part(
        name="kafka",
        command=[*_java(), "kafka.Kafka", str(properties)],
        prepare=lambda: _format(installation, properties),
        ready=lambda: _answers(address),
        stop_seconds=20,
    )


def _answers(address: str) -> bool:
    """Ask for the API versions, the one request a broker answers before a log-in."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2) as connection:
            connection.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
            reply = connection.recv(10, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(reply) == 10 and struct.unpack(">iih", reply)[2] == 0


def _format(installation: Installation, properties: Path) -> None:
    if (installation.kafka / "meta.properties").exists():
        return
    tool = [
        "kafka.tools.StorageTool",
        "format",
        "--ignore-formatted",
        "-t",
        _cluster_id(),
        "-c",
        str(properties),
    ]
    done = subprocess.run([*_java(), *tool], capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"cannot format Kafka's storage: {done.stderr.strip()[-2000:]}")


def _cluster_id() -> str:
    """Kafka's spelling of a UUID; one that starts with a dash would be read as an option."""
    spelled = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return spelled if not spelled.startswith("-") else _cluster_id()


def _java() -> list[str]:
    classpath = os.pathsep.join(str(jar) for jar in ensure("kafka"))
    return [java_binary(), *JVM_FLAGS, "-cp", classpath]


def java_binary() -> str:
    """The machine's Java: JAVA_HOME's, else the first on the path."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found or not Path(found).exists():
        raise MisconfiguredError("Java 17 or 21 is needed; install it, or set JAVA_HOME to where it is")
    return found


def _properties(installation: Installation, environment: Mapping[str, str]) -> str:
    values = {**_listeners(environment), **_storage(installation)}
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _listeners(environment: Mapping[str, str]) -> dict[str, str]:
    controller = f"{LOOPBACK}:{free_port()}"
    user, password = environment["LILY_KAFKA_USERNAME"], environment["LILY_KAFKA_PASSWORD"]
    login = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{user}" password="{password}" user_{user}="{password}";'
    )
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"CLIENT://{environment[KAFKA_URL]},CONTROLLER://{controller}",
        "advertised.listeners": f"CLIENT://{environment[KAFKA_URL]}",
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "CLIENT",
        "controller.listener.names": "CONTROLLER",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": login,
        "listener.name.controller.plain.sasl.jaas.config": login,
    }


def _storage(installation: Installation) -> dict[str, str]:
    return {
        "log.dirs": _escape(str(installation.kafka)),
        "num.partitions": "2",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "message.max.bytes": str(MAX_RECORD_BYTES),
        "replica.fetch.max.bytes": str(MAX_RECORD_BYTES),
        "socket.request.max.bytes": "104857600",
        "metadata.max.idle.interval.ms": "5000",  # a record of "nothing happened" twice a second otherwise
        "num.network.threads": "2",
        "num.io.threads": "4",
        "num.recovery.threads.per.data.dir": "2",
        # A killed broker may return only when its old session is over: 9 s by default.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }


def _escape(value: str) -> str:
    """A value as Java's property files want it."""
    return value.replace("\\", "\\\\")
