"""Enforcement behind a gateway: the enforcer as the dispatcher runs it, and a warehouse it knows."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from rest_kit import Gateway

from kit.enforced import Warehouse
from lily.apps.enforcement import EnforcementParts
from lily.domain.errors import Unavailable
from lily.repositories.postgres.announcements import Announcements
from lily.repositories.postgres.pool import Database
from lily.settings import Settings

PROTECTION = "/lily/v1/protection"


@contextmanager
def known_warehouse(api: Gateway) -> Iterator[Warehouse]:
    """A database to protect, on the gateway's own server; its connector goes with it."""
    made = Warehouse(api.settings.database.url.get_secret_value())
    yield made
    api.execute("DELETE FROM connectors")
    made.close()


class WithoutLog(EnforcementParts):
    """Orders no jobs: there is no log to put them on."""

    async def order_scrape(self, tenant_id: str, connector_id: str) -> str:
        raise Unavailable(f"there is no log for a job of {tenant_id} {connector_id}")


@contextmanager
def enforcing(settings: Settings, parts: type[EnforcementParts] = WithoutLog) -> Iterator[None]:
    """The enforcer, as the dispatcher runs it."""
    loop = asyncio.new_event_loop()

    async def run() -> None:
        database = Database(settings.database)
        announcements = Announcements(database)
        await database.open()
        try:
            async with announcements.running():
                await parts(settings, database, database).enforcer(announcements).run()
        finally:
            await database.close()

    task = loop.create_task(run())

    def work() -> None:
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(20)
        loop.close()


def register(api: Gateway, warehouse: Warehouse, **config: Any) -> str:
    """The warehouse as a connector, with its columns as the scraper finds them."""
    url = warehouse.admin.info
    config |= {"host": "127.0.0.1", "port": url.port, "database": warehouse.database, "user": url.user}
    body = {"type": "postgres", "name": warehouse.database, "secret": url.password, "config": config}
    answer = api.call("POST", "/lily/v1/connectors/acme", json=body)
    assert answer.status_code == 201, answer.text
    connector_id = str(answer.json()["connector_id"])
    for relation in ("customers", "orders", "buyers"):
        know(api, warehouse, connector_id, (relation, "email"))
    return connector_id


def know(api: Gateway, warehouse: Warehouse, connector_id: str, column: tuple[str, str]) -> str:
    """A column as the scraper finds it, which need not be there yet; its asset."""
    place = warehouse.column(*column)
    metadata = json.dumps({"data_type": "text", "connector_id": connector_id})
    about = {"data_source": warehouse.database, "metadata": metadata}
    api.stored(asset_id=place, asset_name=column[1], asset_type="column", external_id=place, **about)
    return place


def tag(api: Gateway, asset_id: str, name: str) -> None:
    fact = {"tenant_id": "acme", "asset_id": asset_id, "tag": name, "is_partial": False, "is_asserted": True}
    api.insert("effective_tags", fact | {"since": "2026-01-01", "cause": str(uuid4())})


def rule(api: Gateway, **said: Any) -> str:
    answer = api.call("POST", f"{PROTECTION}/rules", json=said)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["rule_id"])


def state(api: Gateway, connector_id: str) -> dict[str, Any]:
    answer = api.call("GET", f"{PROTECTION}/status/{connector_id}")
    return dict(answer.json()) if answer.status_code == 200 else {}
