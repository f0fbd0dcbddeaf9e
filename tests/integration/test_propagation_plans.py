"""How PostgreSQL looks facts and edges up does not hang on what it last knew about their number."""

from __future__ import annotations

import psycopg
import pytest

from lily.repositories.postgres.propagator import PLANS

_BY_KEY = """EXPLAIN SELECT FROM assets AS a WHERE NOT EXISTS (
    SELECT FROM effective_tags AS f WHERE f.tenant_id = a.tenant_id AND f.asset_id = a.asset_id
       AND f.tag = 'PII' AND f.is_partial = a.is_deleted OFFSET 0)"""
_BY_SUPPORT = """EXPLAIN SELECT FROM assets AS a CROSS JOIN LATERAL (
    SELECT FROM effective_tags AS f WHERE f.via_from = a.asset_id AND f.tag = 'PII'
       AND f.tenant_id = a.tenant_id OFFSET 0) AS f"""
_SEVERAL_FACTS = """EXPLAIN SELECT FROM (SELECT array_agg(asset_id) AS ids FROM assets) AS t
    CROSS JOIN LATERAL (
    SELECT FROM effective_tags AS f WHERE f.tenant_id = 'acme' AND f.asset_id = ANY(t.ids) AND f.tag = 'PII'
    OFFSET 0) AS f"""
_SEVERAL_EDGES = """EXPLAIN SELECT e.subtype FROM (SELECT array_agg(asset_id) AS ids FROM assets) AS t
    CROSS JOIN LATERAL (
    SELECT * FROM edges AS e WHERE e.tenant_id = 'acme' AND e.from_id = ANY(t.ids)
       AND e.relationship_type = ANY('{derived-from,uses}') OFFSET 0) AS e"""
_ONE_EDGE = """EXPLAIN SELECT e.subtype FROM assets AS a CROSS JOIN LATERAL (
    SELECT * FROM edges AS e WHERE (e.tenant_id, e.from_id, e.relationship_type, e.to_id)
        >= (a.tenant_id, a.asset_id, 'uses', a.asset_name)
     ORDER BY e.tenant_id, e.from_id, e.relationship_type, e.to_id LIMIT 1) AS e"""
_ASSERTED = "EXPLAIN SELECT FROM effective_tags WHERE via_from IS NULL AND tag = 'PII' AND tenant_id = 'acme'"


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (_BY_KEY, "effective_tags_pkey"),
        (_BY_SUPPORT, "effective_tags_by_support"),
        (_ASSERTED, "effective_tags_unsupported"),
        (_SEVERAL_FACTS, "effective_tags_pkey"),
        (_SEVERAL_EDGES, "edges_pkey"),
        (_ONE_EDGE, "edges_pkey"),
    ],
)
@pytest.mark.parametrize(("pages", "rows"), [(0, -1), (0, 0), (6_000, 0), (6_000, 500_000)])
def test_facts_and_edges_are_read_by_their_index_however_many_there_seem_to_be(
    database: str, query: str, index: str, pages: int, rows: int
) -> None:
    with psycopg.connect(database, options=f"{PLANS} -c enable_bitmapscan=off") as connection:
        for table in ("effective_tags", "edges"):
            connection.execute(
                "SELECT pg_restore_relation_stats('schemaname', 'public', 'relname', %s::text,"
                " 'relpages', %s::integer, 'reltuples', %s::real)",
                (table, pages, rows),
            )
        plan = "\n".join(line for (line,) in connection.execute(query.encode()))
        connection.rollback()
    assert f"using {index} " in plan, plan
