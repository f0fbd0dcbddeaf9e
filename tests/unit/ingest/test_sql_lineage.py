"""What SQL says about lineage."""

from __future__ import annotations

import pytest

from lily.domain.errors import InvalidInput
from lily.ingest.sql_lineage import MAX_SQL, DerivedEdge, derive_edges, tables_in

SCHEMAS = {"shop.orders": ["day", "amount"], "shop.customers": ["id", "day", "amount", "vip"]}


def derived(sql: str) -> list[DerivedEdge]:
    return derive_edges(sql, "postgres", "shop", SCHEMAS)


def test_columns_are_followed_through_subqueries_and_named_targets() -> None:
    edges = derived(
        "INSERT INTO daily (day, total) WITH x AS (SELECT o.day AS d, o.amount AS a FROM orders o) "
        "SELECT d, sum(a) FROM x JOIN customers c ON c.id = 3 WHERE c.vip GROUP BY d"
    )
    columns = {(e.source, e.target, e.subtype) for e in edges if e.is_column and not e.is_indirect}
    assert columns == {
        ("shop.orders.day", "shop.daily.day", "IDENTITY"),
        ("shop.orders.amount", "shop.daily.total", "AGGREGATION"),
    }
    assert {e.source for e in edges if not e.is_column} == {"shop.orders", "shop.customers"}
    assert {e.source for e in edges if e.is_indirect} == {"shop.customers.id", "shop.customers.vip"}


def test_a_star_is_what_the_catalog_says_in_every_branch_of_a_union() -> None:
    edges = derived("CREATE VIEW v AS SELECT * FROM orders UNION ALL SELECT day, amount FROM customers")
    assert {(e.source, e.target) for e in edges if e.is_column} == {
        ("shop.orders.day", "shop.v.day"),
        ("shop.orders.amount", "shop.v.amount"),
        ("shop.customers.day", "shop.v.day"),
        ("shop.customers.amount", "shop.v.amount"),
    }


def test_a_statement_that_reads_and_writes_the_same_table_keeps_its_edge() -> None:
    edges = derived("INSERT INTO orders SELECT * FROM orders")
    assert DerivedEdge("shop.orders", "shop.orders", is_column=False) in edges


def test_what_only_reads_has_no_edges_and_its_tables_are_found() -> None:
    assert derived("SELECT * FROM orders") == []
    assert tables_in("SELECT * FROM a, other.B", "postgres", "shop") == ["shop.a", "other.b"]


@pytest.mark.parametrize("sql", ["SELEC x FRM", "(" * 5000, "x" * (MAX_SQL + 1)])
def test_what_is_no_sql_is_refused(sql: str) -> None:
    with pytest.raises(InvalidInput):
        derived(sql)


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(InvalidInput):
        derive_edges("SELECT 1", "klingon", "", {})


def test_names_used_over_and_over_are_followed_once() -> None:
    queries = ", ".join(f"a{n} AS (SELECT x + x AS x FROM a{n - 1})" for n in range(1, 60))
    edges = derived(f"INSERT INTO o WITH a0 AS (SELECT amount AS x FROM orders), {queries} SELECT x FROM a59")
    assert ("shop.orders.amount", "shop.o.x") in {(edge.source, edge.target) for edge in edges}
