"""What `lily.env` promises."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from lily import settings
from lily.standalone import installations
from lily.standalone.environment import DATABASE_URL, GATEWAY_PORT, KAFKA_URL, configure, read_environment
from lily.standalone.installations import Installation


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    for variable in (KAFKA_URL, DATABASE_URL, GATEWAY_PORT):
        monkeypatch.delenv(variable, raising=False)
    return Installation.at(tmp_path / "it's a data dir")


def test_values_are_generated_once_and_kept(installation: Installation) -> None:
    assert configure(installation) == configure(installation) == read_environment(installation)


def test_the_settings_read_what_was_written(installation: Installation) -> None:
    written = configure(installation)
    read = settings.load_settings(installation.data_dir)
    assert read.kafka.bootstrap_servers == written[KAFKA_URL]
    assert read.kafka.password.get_secret_value() == written["LILY_KAFKA_PASSWORD"]
    assert read.database.url.get_secret_value() == written[DATABASE_URL]
    assert read.lake.warehouse == str(installation.data_dir / "lake")
    assert settings.ENV_FILE == installations.ENV_FILE


def test_secrets_are_readable_by_their_owner_only(installation: Installation) -> None:
    configure(installation)
    assert stat.S_IMODE(installation.env_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(installation.data_dir.stat().st_mode) == 0o700


def test_two_installations_share_neither_ports_nor_secrets(
    installation: Installation, tmp_path: Path
) -> None:
    one, other = configure(installation), configure(Installation.at(tmp_path / "other"))
    for name in (KAFKA_URL, DATABASE_URL, "LILY_AUTH_SECRET", "LILY_KAFKA_PASSWORD", "LILY_LAKE_WAREHOUSE"):
        assert one[name] != other[name]


def test_a_port_taken_by_someone_else_is_replaced_and_the_password_stays(installation: Installation) -> None:
    before = configure(installation)
    with socket.create_server(("127.0.0.1", int(before[KAFKA_URL].rpartition(":")[2]))):
        after = configure(installation)
    assert after[KAFKA_URL] != before[KAFKA_URL]
    assert after["LILY_KAFKA_PASSWORD"] == before["LILY_KAFKA_PASSWORD"]
    assert after[DATABASE_URL] == before[DATABASE_URL]


def test_an_external_kafka_gets_no_generated_password(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(installation)
    monkeypatch.setenv(KAFKA_URL, "kafka.example:9092")
    assert not [name for name in configure(installation) if name.startswith("LILY_KAFKA_")]
    assert settings.load_settings(installation.data_dir).kafka.username == ""


def test_the_public_port_is_remembered(installation: Installation) -> None:
    assert configure(installation)[GATEWAY_PORT] == "8080"
    configure(installation, 9099)
    assert configure(installation)[GATEWAY_PORT] == "9099"
