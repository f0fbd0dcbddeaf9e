"""Real parts: one PostgreSQL, one Kafka, one Spark per run; a fresh database and fresh topics per test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kit.databases import Databases
    from kit.platform import Platform
    from kit.staging import Catalog
    from lily.settings import KafkaSettings, Settings
    from lily.standalone.services import Services

# The parts are imported where they are used: unit tests start in a moment.

_COMMON = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow], "print_blob": True}
hypothesis.settings.register_profile("ci", derandomize=True, max_examples=300, **_COMMON)
hypothesis.settings.register_profile("explore", max_examples=3000, **_COMMON)
hypothesis.settings.load_profile(os.environ.get("LILY_TEST_PROFILE", "ci"))


def pytest_configure(config: pytest.Config) -> None:
    # Py4J leaves its sockets to the garbage collector.
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with an installation of their own come first, while the one all others share does not run yet."""
    items.sort(key=_shares_a_platform)


def _shares_a_platform(item: pytest.Item) -> bool:
    definitions = getattr(item, "_fixtureinfo").name2fixturedefs.get("platform")  # noqa: B009 # untyped
    return bool(definitions) and definitions[-1].scope == "session"


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """PostgreSQL and Kafka as `lily up` runs them."""
    from lily.standalone.services import start_services

    running = start_services(tmp_path_factory.mktemp("services"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def databases(services: Services) -> Databases:
    from kit.databases import Databases

    environment = services.environment
    return Databases(environment["LILY_DATABASE_URL"], environment["LILY_DATABASE_GATEWAY_PASSWORD"])


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    """The URL of a fresh database, for tests that need nothing else."""
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture
def catalog(database: str) -> Iterator[Catalog]:
    """A fresh database with an applier and a reader."""
    from kit.staging import Catalog

    opened = Catalog(database)
    yield opened
    opened.close()


@pytest.fixture
def topics(services: Services) -> KafkaSettings:
    """A cell of its own on the log, with all topics."""
    return _topics(services)


def _topics(services: Services) -> KafkaSettings:
    from lily.log.migrations import migrate_topics
    from lily.settings import KafkaSettings

    environment = services.environment
    kafka = KafkaSettings(
        bootstrap_servers=environment["LILY_KAFKA_BOOTSTRAP_SERVERS"],
        username=environment.get("LILY_KAFKA_USERNAME", ""),
        password=environment.get("LILY_KAFKA_PASSWORD", ""),
        topic_prefix=f"test-{uuid4().hex[:12]}.",
        partitions=2,
    )
    migrate_topics(kafka)
    return kafka


@pytest.fixture
def settings(database: str, topics: KafkaSettings, services: Services, tmp_path: Path) -> Settings:
    """The whole tree for one test: its own database, topics and data directory."""
    return _settings(database, topics, services, tmp_path)


@pytest.fixture
def settings_without_log(database: str, services: Services, tmp_path: Path) -> Settings:
    """The tree for a test that appends nothing: there is no log at its address."""
    from lily.settings import KafkaSettings

    return _settings(database, KafkaSettings(bootstrap_servers="127.0.0.1:9"), services, tmp_path)


@pytest.fixture(scope="module")
def shared_settings_without_log(
    databases: Databases, services: Services, tmp_path_factory: pytest.TempPathFactory
) -> Settings:
    """The tree for a module of tests that append nothing: there is no log at its address."""
    from lily.settings import KafkaSettings

    nowhere = KafkaSettings(bootstrap_servers="127.0.0.1:9")
    return _settings(databases.create(), nowhere, services, tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def shared_settings(
    databases: Databases, services: Services, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    """The same for all tests of a module that keep apart by their tenants."""
    url = databases.create()
    yield _settings(url, _topics(services), services, tmp_path_factory.mktemp("shared"))
    databases.drop(url)


@pytest.fixture(scope="session")
def spark(
    services: Services, databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """The pipeline's own session, small."""
    from lily.pipeline.session import start_session
    from lily.settings import KafkaSettings

    kafka = KafkaSettings(bootstrap_servers=services.environment["LILY_KAFKA_BOOTSTRAP_SERVERS"])
    session = start_session(_settings(databases.create(), kafka, services, tmp_path_factory.mktemp("spark")))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A whole installation, started by `./lily up`, that may tell receivers on this machine."""
    from kit.platform import running_platform

    allowed = {"LILY_TARGETS_ALLOW": "127.0.0.0/8"}
    with running_platform(tmp_path_factory.mktemp("platform"), allowed) as running:
        yield running


def _settings(database: str, kafka: KafkaSettings, services: Services, data_dir: Path) -> Settings:
    from lily.settings import (
        AuditSettings,
        AuthSettings,
        DatabaseSettings,
        LakeSettings,
        SecretsSettings,
        Settings,
        SparkSettings,
    )

    return Settings(
        data_dir=data_dir,
        kafka=kafka,
        database=DatabaseSettings(
            url=database,
            gateway_password=services.environment["LILY_DATABASE_GATEWAY_PASSWORD"],
            pool_size=4,
        ),
        lake=LakeSettings(warehouse=str(data_dir / "lake")),
        spark=SparkSettings(
            checkpoints=str(data_dir / "checkpoints"),
            jars=services.environment["LILY_SPARK_JARS"],
            master="local[2]",
            driver_memory="600m",
        ),
        auth=AuthSettings(secret=services.environment["LILY_AUTH_SECRET"]),
        audit=AuditSettings(key=services.environment["LILY_AUDIT_KEY"]),
        secrets=SecretsSettings(keys=services.environment["LILY_SECRETS_KEYS"]),
    )
