"""The demo's warehouse is made once, read by its connector's user, and queried by its analyst."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from lily.apps.demo_warehouse import ANALYST, DATABASE, OWNER, Passwords, Warehouse
from lily.domain.scraping import FoundAsset, FoundLineage, Target
from lily.ingest.scraping.postgres import scrape
from lily.standalone.services import Services
from lily.targets.enforcement.reaching import reach


@pytest.fixture
def warehouse(services: Services, tmp_path: Path) -> Warehouse:
    made = Warehouse(services.environment["LILY_DATABASE_URL"], Passwords.of(tmp_path))
    made.ensure()
    return made


def test_making_the_warehouse_again_changes_nothing(warehouse: Warehouse, tmp_path: Path) -> None:
    before = warehouse.query("SELECT * FROM top_customers ORDER BY 1")
    again = Warehouse(warehouse._url, Passwords.of(tmp_path))
    again.ensure()
    assert again.query("SELECT * FROM top_customers ORDER BY 1") == before
    assert before[0] == ["contact", "revenue"]
    assert [row[0] for row in before[1]] == ["ada@example.com", "emmy@example.com", "grace@example.com"]


def test_the_analyst_reads_and_does_nothing_else(warehouse: Warehouse) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        warehouse.query("DELETE FROM customers")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        warehouse.query("CREATE TABLE mine (a int)")


def test_the_connectors_user_sees_the_shop_and_its_lineage(warehouse: Warehouse) -> None:
    config = {"host": warehouse.host, "port": warehouse.port, "database": DATABASE, "user": OWNER}
    found = list(scrape(Target("c-1", config, {"secret": warehouse.passwords.owner}, reach)))
    assets = {each.external_id: each for each in found if isinstance(each, FoundAsset)}
    assert assets[f"{DATABASE}.public.customers"].metadata["grants"][ANALYST] == ["SELECT"]
    edges = {
        (edge.source, edge.target)
        for each in found
        if isinstance(each, FoundLineage)
        for edge in each.derive()
    }
    public = f"{DATABASE}.public"
    assert (f"{public}.customers.email", f"{public}.customer_orders.email") in edges
    assert (f"{public}.customer_orders.email", f"{public}.top_customers.contact") in edges
