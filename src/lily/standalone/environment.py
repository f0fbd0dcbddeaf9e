"""The `lily.env` of an installation: ports and secrets, generated once and kept over restarts."""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from dotenv import dotenv_values

from lily.standalone.artefacts import ensure
from lily.standalone.files import write_atomically
from lily.standalone.installations import Installation
from lily.standalone.ports import LOOPBACK, free_port, is_free

KAFKA_URL = "LILY_KAFKA_BOOTSTRAP_SERVERS"
DATABASE_URL = "LILY_DATABASE_URL"
GATEWAY_PASSWORD = "LILY_DATABASE_GATEWAY_PASSWORD"
GATEWAY_PORT = "LILY_GATEWAY_PORT"
GRPC_PORT = "LILY_GATEWAY_GRPC_PORT"
DEFAULT_PORT = 8080
USER = DATABASE = "lily"


def is_external(variable: str) -> bool:
    """Whether the part at this address is somebody else's, so that it is not started here."""
    return bool(os.environ.get(variable))


def read_environment(installation: Installation) -> dict[str, str]:
    """What the installation's file says now; empty before the first start."""
    return {name: value for name, value in dotenv_values(installation.env_file).items() if value is not None}


def configure(installation: Installation, gateway_port: int | None = None) -> dict[str, str]:
    """Complete the installation's file and return it.

    A port stays what it was unless somebody else took it meanwhile. A part whose address is set in the
    environment gets no values here, so that it never receives a generated user name or password.
    """
    installation.create()
    kept = read_environment(installation)
    values = {
        **_lily_values(installation, kept),
        **({} if is_external(KAFKA_URL) else _kafka_values(kept)),
        **_database_values(kept),
        GATEWAY_PASSWORD: kept.get(GATEWAY_PASSWORD) or secrets.token_urlsafe(24),
        GATEWAY_PORT: str(gateway_port or preferred_port(kept)),
        GRPC_PORT: str(_steady_port(kept, GRPC_PORT, int)),
    }
    lines = (f"{name}='{_escape(value)}'" for name, value in sorted(values.items()))
    write_atomically(installation.env_file, "\n".join(lines) + "\n")
    return values


def preferred_port(kept: Mapping[str, str]) -> int:
    """The public port when none is asked for: the variable's, else the last one used, else 8080."""
    return int(os.environ.get(GATEWAY_PORT) or kept.get(GATEWAY_PORT) or DEFAULT_PORT)


def _lily_values(installation: Installation, kept: Mapping[str, str]) -> dict[str, str]:
    return {
        "LILY_AUTH_SECRET": kept.get("LILY_AUTH_SECRET") or secrets.token_urlsafe(48),
        "LILY_AUDIT_KEY": kept.get("LILY_AUDIT_KEY") or secrets.token_urlsafe(48),
        **_secrets_values(kept),
        "LILY_LAKE_WAREHOUSE": str(installation.data_dir / "lake"),
        "LILY_SPARK_CHECKPOINTS": str(installation.data_dir / "checkpoints"),
        "LILY_SPARK_JARS": ",".join(str(jar) for jar in ensure("spark")),
    }


def _secrets_values(kept: Mapping[str, str]) -> dict[str, str]:
    """A key for secrets at rest, unless whoever runs Lily brings their own."""
    if any(is_external(f"LILY_SECRETS_{name}") for name in ("KEYS", "KEY_FILE", "KMS")):
        return {}
    fresh = f"generated:{base64.b64encode(secrets.token_bytes(32)).decode()}"
    return {"LILY_SECRETS_KEYS": kept.get("LILY_SECRETS_KEYS") or fresh}


def _kafka_values(kept: Mapping[str, str]) -> dict[str, str]:
    port = _steady_port(kept, KAFKA_URL, lambda url: int(url.rpartition(":")[2]))
    return {
        KAFKA_URL: f"{LOOPBACK}:{port}",
        "LILY_KAFKA_USERNAME": USER,
        "LILY_KAFKA_PASSWORD": kept.get("LILY_KAFKA_PASSWORD") or secrets.token_urlsafe(24),
        "LILY_KAFKA_PARTITIONS": "2",
    }


def _database_values(kept: Mapping[str, str]) -> dict[str, str]:
    port = _steady_port(kept, DATABASE_URL, lambda url: urlsplit(url).port or 0)
    password = urlsplit(kept.get(DATABASE_URL, "")).password or secrets.token_urlsafe(24)
    return {DATABASE_URL: f"postgresql://{USER}:{password}@{LOOPBACK}:{port}/{DATABASE}"}


def _steady_port(kept: Mapping[str, str], variable: str, port_of: Callable[[str], int]) -> int:
    port = port_of(kept[variable]) if variable in kept else 0
    return port if port and is_free(port) else free_port()


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
