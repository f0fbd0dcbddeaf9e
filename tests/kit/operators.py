"""The command line as an operator uses it, on the installation of a test."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from lily.apps.cli import app
from lily.settings import Settings

#: What a command prints on standard output; `stdin` is what it is given.
Lily = Callable[..., str]


def environment_of(settings: Settings) -> dict[str, str]:
    """The variables that lead a process to the parts of a test."""
    kafka, database = settings.kafka, settings.database
    return {
        "LILY_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "LILY_KAFKA_USERNAME": kafka.username,
        "LILY_KAFKA_PASSWORD": kafka.password.get_secret_value(),
        "LILY_KAFKA_TOPIC_PREFIX": kafka.topic_prefix,
        "LILY_DATABASE_URL": database.url.get_secret_value(),
        "LILY_DATABASE_GATEWAY_PASSWORD": database.gateway_password.get_secret_value(),
        "LILY_LAKE_WAREHOUSE": settings.lake.warehouse,
        "LILY_SPARK_CHECKPOINTS": settings.spark.checkpoints,
        "LILY_AUTH_SECRET": settings.auth.secret.get_secret_value(),
        "LILY_AUDIT_KEY": settings.audit.key.get_secret_value(),
        "LILY_SECRETS_KEYS": settings.secrets.keys.get_secret_value(),
    }


def operator_of(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Lily:
    """Runs commands that must succeed."""
    for name, value in environment_of(settings).items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str, stdin: str = "") -> str:
        line = [*arguments, "--data-dir", str(settings.data_dir)]
        result = CliRunner().invoke(app, line, input=stdin)
        assert result.exit_code == 0, (arguments, result.output, result.exception)
        return result.stdout

    return run
