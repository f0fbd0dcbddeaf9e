"""The services an installation runs on, PostgreSQL and Kafka, without Lily's own processes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lily.standalone.environment import DATABASE_URL, KAFKA_URL, configure, is_external
from lily.standalone.installations import Installation
from lily.standalone.kafka import kafka_part
from lily.standalone.parts import Part
from lily.standalone.postgres import postgres_part
from lily.standalone.states import end_leftovers, sole_supervisor
from lily.standalone.supervision import Supervisor


@dataclass(frozen=True)
class Services:
    """Running services; `environment` holds the `LILY_…` variables that lead to them."""

    environment: dict[str, str]
    supervisor: Supervisor
    hold: ExitStack

    def stop(self) -> None:
        """Stop what was started and let go of the directory; the data stays."""
        self.hold.close()


def start_services(data_dir: Path) -> Services:
    """Start what is not external and return when it answers. Ends with this process at the latest."""
    installation = Installation.at(data_dir)
    installation.create()
    with ExitStack() as hold:
        hold.enter_context(sole_supervisor(installation))
        end_leftovers(installation)
        environment = configure(installation)
        supervisor = Supervisor(installation)
        hold.callback(supervisor.stop)
        supervisor.start(service_parts(installation, environment))
        return Services(environment, supervisor, hold.pop_all())


def service_parts(installation: Installation, environment: Mapping[str, str]) -> list[Part]:
    """The services this installation must run itself."""
    parts = []
    if not is_external(DATABASE_URL):
        parts.append(postgres_part(installation, environment[DATABASE_URL]))
    if not is_external(KAFKA_URL):
        parts.append(kafka_part(installation, environment))
    return parts
