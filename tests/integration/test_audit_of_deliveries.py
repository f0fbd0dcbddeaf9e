"""What leaves Lily about an asset with tags is in the audit before it leaves."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from uuid import uuid4

import psycopg
from delivery_kit import message

from lily.access.audit import AuditTrail
from lily.domain.deliveries import QueueName, Shipment
from lily.repositories.postgres.assets import PostgresAssets
from lily.repositories.postgres.pool import Database
from lily.settings import Settings
from lily.targets.outgoing import Outgoing

INSERT = """
INSERT INTO assets (tenant_id, asset_id, asset_name, asset_type, user_tags, created_at, version, fields,
                    clock_time, clock_id)
VALUES ('acme', %s, 'x', 'table', %s, now(), 1, 3, now(), gen_random_uuid())
"""


def shipment(asset_id: str | None) -> Shipment:
    now = datetime.now(UTC)
    name, said = QueueName("acme", str(uuid4()), "q"), message(asset_id=asset_id)
    return Shipment(name, uuid4(), "rule", {}, said, now, 1, 0, False, now, None)


def test_a_delivery_about_a_tagged_asset_is_noted_with_its_subscription_and_target(
    settings_without_log: Settings,
) -> None:
    settings = settings_without_log
    url, key = settings.database.url.get_secret_value(), settings.audit.key.get_secret_value()
    with psycopg.connect(url) as connection:
        connection.execute(INSERT.encode(), ["secret", ["pii"]])
        connection.execute(INSERT.encode(), ["plain", []])
    told = shipment("secret")

    async def run() -> None:
        database = Database(settings.database)
        await database.open()
        try:
            leaving = [shipment(None), shipment("plain"), shipment("unknown"), told]
            await Outgoing(PostgresAssets(database), trail)(leaving)
        finally:
            await database.close()

    trail = AuditTrail(url, key, settings.data_dir / "audit")
    with trail.running():
        asyncio.run(run())
    with psycopg.connect(url) as connection:
        query = b"SELECT actor, address, action, resource_id FROM audit WHERE tenant_id = 'acme'"
        noted = connection.execute(query).fetchall()
    assert noted == [("subscription:rule", f"connector:{told.queue.connector_id}", "deliver", "secret")]
