"""The graph in PostgreSQL for `bench lineage`, and what others make of it: a recursive query, rustworkx."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg
import rustworkx as rx

from bench.kit.graphs import LONG, SMALL, WIDE, GraphSize, assets, edges
from bench.kit.reports import Figures

_ASSETS = """COPY assets (tenant_id, asset_id, asset_name, asset_type, created_at, version, fields,
    clock_time, clock_id) FROM STDIN"""
_EDGES = "COPY edges (tenant_id, from_id, to_id, relationship_type) FROM STDIN"
_TABLES = (
    "assets",
    "edges",
    "edge_assertions",
    "lineage_events",
    "effective_tags",
    "tag_changes",
    "tag_assertions",
    "untold_tag_changes",
    "propagation_arrears",
)
_AT, _ID = "2026-01-01T00:00:00Z", "00000000-0000-7000-8000-000000000001"
_WALK = """WITH RECURSIVE below (asset_id, depth) AS (
    SELECT %(start)s::text, 0
    UNION
    SELECT e.to_id, b.depth + 1 FROM below AS b
      JOIN edges AS e ON e.tenant_id = %(tenant)s AND e.from_id = b.asset_id WHERE b.depth < %(depth)s
)"""
_REACH = """WITH RECURSIVE below (asset_id) AS (
    SELECT %(start)s::text
    UNION
    SELECT e.to_id FROM below AS b JOIN edges AS e ON e.tenant_id = %(tenant)s AND e.from_id = b.asset_id
)"""


def load(url: str, tenant: str, size: GraphSize) -> None:
    """Assets and edges as they would be after their events."""
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        with cursor.copy(_ASSETS) as copy:
            for asset in assets(size):
                copy.write_row((tenant, asset, asset, "table", _AT, 1, 3, _AT, _ID))
        with cursor.copy(_EDGES) as copy:
            for start, end in edges(size):
                copy.write_row((tenant, start, end, "derived-from"))
        for table in ("assets", "edges"):
            cursor.execute(f"VACUUM ANALYZE {table}".encode())


def unload(url: str, tenant: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for table in _TABLES:
            connection.execute(f"DELETE FROM {table} WHERE tenant_id = %s".encode(), (tenant,))


def measure_recursive_query(url: str, tenant: str, walked: list[str]) -> Figures:
    """The same walks, and a tag as rows of a table, by one recursive statement each."""
    prefix = "recursive_cte_"
    with psycopg.connect(url, autocommit=True, options="-c jit=off") as connection:

        def run(statement: str, start: str, depth: int = 0) -> float:
            asked = {"tenant": tenant, "start": start, "depth": depth}
            return _timed(lambda: connection.execute(statement.encode(), asked))

        connection.execute("CREATE TEMPORARY TABLE tagged (asset_id text PRIMARY KEY)")
        select = " SELECT DISTINCT asset_id FROM below"
        insert = f"{_REACH} INSERT INTO tagged SELECT asset_id FROM below"
        small = [run(insert, SMALL) for _ in range(50) if connection.execute("TRUNCATE tagged")]
        connection.execute("TRUNCATE tagged")
        return {
            f"{prefix}depth_5_p99_s": _p99([run(_WALK + select, asset, 5) for asset in walked]),
            f"{prefix}downstream_25k_s": round(min(run(_REACH + select, LONG) for _ in range(3)), 4),
            f"{prefix}tag_10_p99_s": _p99(small),
            f"{prefix}tag_100k_s": round(run(insert, WIDE), 4),
            f"{prefix}untag_100k_s": round(
                run(f"{_REACH} DELETE FROM tagged USING below WHERE tagged.asset_id = below.asset_id", WIDE),
                4,
            ),
        }


def measure_rustworkx(size: GraphSize, walked: list[str]) -> Figures:
    """The same in the memory of one process: nothing is stored, nobody waits."""
    prefix, graph = "rustworkx_", rx.PyDiGraph()
    names = list(assets(size))
    index = dict(zip(names, graph.add_nodes_from(names), strict=True))
    pairs = [(index[start], index[end]) for start, end in edges(size)]
    seconds = _timed(lambda: graph.add_edges_from_no_data(pairs))
    tagged: set[int] = set()

    def near(asset: str) -> None:
        frontier = seen = {index[asset]}
        for _ in range(5):
            frontier = {n for node in frontier for n in graph.successor_indices(node)} - seen
            seen = seen | frontier

    return {
        f"{prefix}edge_writes_per_s": round(len(pairs) / seconds, 1),
        f"{prefix}depth_5_p99_s": _p99([_timed(lambda asset=asset: near(asset)) for asset in walked]),  # type: ignore[misc]
        f"{prefix}downstream_25k_s": round(_timed(lambda: rx.descendants(graph, index[LONG])), 4),
        f"{prefix}tag_10_p99_s": _p99(
            [_timed(lambda: rx.descendants(graph, index[SMALL])) for _ in range(50)]
        ),
        f"{prefix}tag_100k_s": round(_timed(lambda: tagged.update(rx.descendants(graph, index[WIDE]))), 4),
        f"{prefix}untag_100k_s": round(
            _timed(lambda: tagged.difference_update(rx.descendants(graph, index[WIDE]))), 4
        ),
    }


def _timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _p99(seconds: list[float]) -> float:
    return round(sorted(seconds)[max(0, round(0.99 * len(seconds)) - 1)], 6)
