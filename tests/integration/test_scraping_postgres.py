"""The PostgreSQL source: what it finds in a real database, and what its views are made from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from kit.databases import Databases
from kit.warehouses import Warehouse
from lily.domain.errors import LilyError
from lily.domain.external_ids import qualified
from lily.domain.scraping import UNKNOWN, FoundAsset, FoundEdge, FoundLineage, Target
from lily.ingest.scraping.postgres import scrape
from lily.ingest.scraping.sources import SourceRefused, SourceUnreachable
from lily.targets.enforcement.reaching import reach


@pytest.fixture
def warehouse(databases: Databases) -> Iterator[Warehouse]:
    url = databases.create_empty()
    yield Warehouse(url)
    databases.drop(url)


def read(warehouse: Warehouse, **config: Any) -> tuple[dict[str, FoundAsset], dict[str, FoundLineage]]:
    found = list(scrape(Target("c-1", warehouse.config | config, {"secret": warehouse.password}, reach)))
    assets = {each.external_id: each for each in found if isinstance(each, FoundAsset)}
    lineage = {each.external_id: each for each in found if isinstance(each, FoundLineage)}
    prefix = f"{warehouse.name}."
    return (
        {name.removeprefix(prefix): each for name, each in assets.items()},
        {name.removeprefix(prefix): each for name, each in lineage.items()},
    )


def edges(warehouse: Warehouse, view: str) -> set[tuple[str, str]]:
    """The direct edges between columns, without the database's name."""
    _, lineage = read(warehouse)
    cut = len(warehouse.name) + 1
    return {(e.source[cut:], e.target[cut:]) for e in lineage[view].derive() if not e.is_indirect}


def test_every_database_schema_table_view_and_column_is_found_with_what_contains_it(
    warehouse: Warehouse,
) -> None:
    assets, _ = read(warehouse)
    name = warehouse.name
    kinds = {each: found.asset_type for each, found in assets.items()}
    assert kinds[name] == "database"
    assert kinds["shop"] == "schema"
    assert kinds["shop.customers"] == kinds["shop.orders"] == "table"
    assert kinds["shop.customer_orders"] == kinds["shop.mailing"] == "view"
    email = assets["shop.customers.email"]
    assert (email.asset_type, email.name, email.description) == ("column", "email", "Where invoices go.")
    assert email.parents == (name, f"{name}.shop", f"{name}.shop.customers")
    assert email.metadata["data_type"] == "text"
    assert email.metadata["nullable"] is False
    assert assets["shop.orders.amount"].metadata["data_type"] == "numeric(10,2)"
    assert assets["shop.customers.id"].metadata["primary_key"] is True
    assert assets["shop"].description == "The shop's own tables."
    assert not [each for each in assets if each.startswith(("pg_catalog", "information_schema"))]


def test_who_may_do_what_in_the_database_is_told(warehouse: Warehouse) -> None:
    role = f"analyst_{uuid4().hex[:8]}"
    warehouse.execute(
        f"CREATE ROLE {role}".encode(),
        f"GRANT SELECT ON shop.orders TO {role}".encode(),
        f"GRANT SELECT (country) ON shop.customers TO {role}".encode(),
        b"GRANT SELECT ON shop.mailing TO PUBLIC",
    )
    assets, _ = read(warehouse)
    warehouse.execute(f"DROP OWNED BY {role}".encode(), f"DROP ROLE {role}".encode())
    assert assets["shop.orders"].metadata["grants"][role] == ["SELECT"]
    assert assets["shop.mailing"].metadata["grants"]["PUBLIC"] == ["SELECT"]
    assert assets["shop.customers.country"].metadata["grants"] == {role: ["SELECT"]}
    assert role not in assets["shop.customers"].metadata["grants"]


def test_a_views_columns_come_from_the_columns_its_sql_names(warehouse: Warehouse) -> None:
    assert edges(warehouse, "shop.customer_orders") == {
        ("shop.customers", "shop.customer_orders"),
        ("shop.orders", "shop.customer_orders"),
        ("shop.orders.id", "shop.customer_orders.id"),
        ("shop.customers.email", "shop.customer_orders.email"),
        ("shop.customers.name", "shop.customer_orders.customer"),
        ("shop.orders.amount", "shop.customer_orders.amount"),
    }
    assert ("shop.customer_orders.email", "shop.mailing.address") in edges(warehouse, "shop.mailing")


def test_what_a_view_filters_groups_and_sorts_by_reaches_it_indirectly(warehouse: Warehouse) -> None:
    warehouse.execute(
        b"CREATE VIEW shop.tops AS SELECT amount FROM shop.orders WHERE customer_id > 5 ORDER BY placed_at"
    )
    _, lineage = read(warehouse)
    prefix = f"{warehouse.name}.shop"
    indirect = {(e.source, e.target) for e in lineage["shop.tops"].derive() if e.is_indirect}
    assert indirect == {
        (f"{prefix}.orders.customer_id", f"{prefix}.tops"),
        (f"{prefix}.orders.placed_at", f"{prefix}.tops"),
    }


@pytest.mark.parametrize(
    "query",
    [
        b"SELECT row_to_json(c.*) AS made FROM shop.customers c",
        b"SELECT c AS made FROM shop.customers c",
        b"SELECT (SELECT jsonb_agg(x.*) FROM shop.customers x) AS made",
        b"SELECT (SELECT max(x.email) FROM shop.customers x) AS made FROM shop.orders x",
        b"WITH a AS (SELECT email AS made FROM shop.customers) SELECT made FROM a UNION SELECT made FROM a",
        b"SELECT coalesce(d.email, 'none') AS made FROM (SELECT * FROM shop.customers) d",
        b"SELECT string_agg(c.email, ',') OVER (PARTITION BY c.country) AS made FROM shop.customers c",
    ],
)
def test_a_column_is_never_lost_on_its_way_into_a_view(warehouse: Warehouse, query: bytes) -> None:
    warehouse.execute(b"CREATE VIEW shop.sly AS " + query)
    assert ("shop.customers.email", "shop.sly.made") in edges(warehouse, "shop.sly")


def test_sql_that_is_not_understood_connects_everything_it_could_mean(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lily.domain.errors import InvalidInput

    def refuse(*_: object) -> None:
        raise InvalidInput("not understood")

    monkeypatch.setattr("lily.ingest.sql_lineage.derive_edges", refuse)
    _, lineage = read(warehouse)
    prefix = f"{warehouse.name}.shop"
    derived = lineage["shop.customer_orders"].derive()
    wanted = FoundEdge(f"{prefix}.customers.email", f"{prefix}.customer_orders.amount", subtype=UNKNOWN)
    assert wanted in derived


def test_a_partition_has_what_protects_its_table(warehouse: Warehouse) -> None:
    warehouse.execute(
        b"CREATE TABLE shop.visits (day date, address inet) PARTITION BY RANGE (day)",
        b"CREATE TABLE shop.visits_26 PARTITION OF shop.visits DEFAULT",
    )
    assert ("shop.visits.address", "shop.visits_26.address") in edges(warehouse, "shop.visits_26")


def test_a_generated_column_comes_from_those_it_is_computed_from(warehouse: Warehouse) -> None:
    warehouse.execute(
        b"ALTER TABLE shop.customers ADD copied text GENERATED ALWAYS AS (lower(email) || country) STORED"
    )
    assert edges(warehouse, "shop.customers.copied") == {
        ("shop.customers.email", "shop.customers.copied"),
        ("shop.customers.country", "shop.customers.copied"),
    }


def test_names_in_other_spellings_stay_apart(warehouse: Warehouse) -> None:
    warehouse.execute(
        b'CREATE TABLE shop."Odd.Name" ("E-Mail" text, "e-mail" text)',
        b'CREATE VIEW shop."View" AS SELECT "E-Mail", "e-mail" FROM shop."Odd.Name"',
    )
    assets, lineage = read(warehouse)
    assert 'shop."Odd.Name".E-Mail' in assets
    assert 'shop."Odd.Name".e-mail' in assets
    derived = {e.source for e in lineage["shop.View"].derive()}
    assert f'{warehouse.name}.shop."Odd.Name".E-Mail' in derived


def test_the_basis_of_lineage_changes_only_with_what_it_is_derived_from(warehouse: Warehouse) -> None:
    before = read(warehouse)[1]
    warehouse.execute(b"COMMENT ON VIEW shop.mailing IS 'x'", b"ALTER TABLE shop.orders ADD note text")
    after = read(warehouse)[1]
    assert after["shop.mailing"].basis == before["shop.mailing"].basis
    assert after["shop.customer_orders"].basis != before["shop.customer_orders"].basis


def test_only_the_schemas_that_were_asked_for_are_read(warehouse: Warehouse) -> None:
    warehouse.execute(b"CREATE SCHEMA other", b"CREATE TABLE other.t (a int)")
    assets, _ = read(warehouse, schemas=["other"])
    assert set(assets) == {warehouse.name, "other", "other.t", "other.t.a"}


def test_a_wrong_password_is_the_connectors_fault_and_a_closed_port_the_networks(
    warehouse: Warehouse,
) -> None:
    wrong = Target("c-1", warehouse.config, {"secret": "wrong"}, reach)
    with pytest.raises(SourceRefused, match="change the connector"):
        list(scrape(wrong))
    away = Target("c-1", warehouse.config | {"port": 9}, {"secret": "x"}, reach)
    with pytest.raises(SourceUnreachable, match="check host, port and network"):
        list(scrape(away))


def test_nothing_can_be_written_through_the_scraper(warehouse: Warehouse) -> None:
    """A function in a view or a default cannot use the scraper's rights: its transaction is read-only."""
    warehouse.execute(b"CREATE TABLE shop.trace (at timestamptz)")
    from lily.ingest.scraping.postgres import _connected

    target = Target("c-1", warehouse.config, {"secret": warehouse.password}, reach)
    with _connected(target) as connection, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        connection.execute("INSERT INTO shop.trace VALUES (now())")


def test_where_no_database_is_nobody_connects(warehouse: Warehouse) -> None:
    metadata_service = Target("c-1", warehouse.config | {"host": "169.254.169.254"}, {"secret": "x"}, reach)
    with pytest.raises(LilyError, match="where no database is"):
        list(scrape(metadata_service))


def test_no_two_things_have_the_same_external_id() -> None:
    assert qualified("a.b", "c") != qualified("a", "b.c")
    assert qualified("shop", "public", "orders") == "shop.public.orders"
