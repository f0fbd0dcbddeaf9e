"""Brings database and topics to this version; run before the other processes start."""

from __future__ import annotations

import argparse
from pathlib import Path

import structlog

from lily.log.migrations import migrate_topics
from lily.repositories.postgres.migrations import migrate_database
from lily.repositories.postgres.roles import GatewayRole
from lily.repositories.postgres.tenant_admin import TenantAdmin
from lily.settings import Settings, load_settings
from lily.telemetry import configure_logging
from lily.tenancy.cells import cell_settings

_log = structlog.get_logger(__name__)


def migrate(settings: Settings) -> None:
    """Idempotent: the second run changes nothing. The dedicated cells come after the shared one."""
    migrate_cell(settings)
    for cell in TenantAdmin(settings.database.url.get_secret_value()).cells().values():
        migrate_cell(cell_settings(settings, cell))


def migrate_cell(settings: Settings) -> None:
    """Tables and topics of one cell."""
    database = settings.database
    gateway = GatewayRole(database.gateway_role, database.gateway_password.get_secret_value())
    migrations = migrate_database(database.url.get_secret_value(), gateway)
    topics = migrate_topics(settings.kafka)
    _log.info("migrated", migrations=migrations, topics=topics)


def main() -> None:
    parser = argparse.ArgumentParser(prog="lily-migrate", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    settings = load_settings(parser.parse_args().data_dir.absolute())
    configure_logging("migrate", settings.telemetry.log_level)
    migrate(settings)


if __name__ == "__main__":
    main()
