"""What `ladybug`, an embedded graph database, makes of the graph of `bench lineage`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import ladybug

from bench.kit.graphs import LONG, SMALL, WIDE, GraphSize, assets, edges
from bench.kit.reports import Figures

_PREFIX = "ladybug_"
_NEAR = "MATCH (a:Asset {id: $id})-[:Leads* SHORTEST 1..5]->(b:Asset) RETURN b.id"
_BELOW = "MATCH (a:Asset {id: $id})-[:Leads* SHORTEST 1..60]->(b:Asset)"


def measure_ladybug(size: GraphSize, walked: list[str]) -> Figures:
    """The same walks, and a tag as a property of assets, in files of one process: nobody else waits."""
    with tempfile.TemporaryDirectory(prefix="lily-bench-") as scratch:
        folder = Path(scratch)
        _write(folder / "assets.csv", assets(size))
        _write(folder / "edges.csv", (f"{start},{end}" for start, end in edges(size)))
        connection = ladybug.Connection(ladybug.Database(str(folder / "graph")))
        connection.execute("CALL var_length_extend_max_depth = 60")
        connection.execute(
            "CREATE NODE TABLE Asset(id STRING, tagged BOOLEAN DEFAULT false, PRIMARY KEY (id))"
        )
        connection.execute("CREATE REL TABLE Leads(FROM Asset TO Asset)")
        connection.execute(f'COPY Asset (id) FROM "{folder / "assets.csv"}"')
        seconds = _timed(connection, f'COPY Leads FROM "{folder / "edges.csv"}"')
        number = connection.execute("MATCH ()-[l:Leads]->() RETURN count(l)").get_next()[0]
        return {f"{_PREFIX}edge_writes_per_s": round(number / seconds, 1), **_measure(connection, walked)}


def _measure(connection: ladybug.Connection, walked: list[str]) -> Figures:
    tag, untag = (f"{_BELOW} SET b.tagged = {value}" for value in ("true", "false"))
    below = f"{_BELOW} RETURN b.id"
    return {
        f"{_PREFIX}depth_5_p99_s": _p99([_timed(connection, _NEAR, asset) for asset in walked]),
        f"{_PREFIX}downstream_25k_s": round(min(_timed(connection, below, LONG) for _ in range(3)), 4),
        f"{_PREFIX}tag_10_p99_s": _p99([_timed(connection, tag, SMALL) for _ in range(50)]),
        f"{_PREFIX}tag_100k_s": round(_timed(connection, tag, WIDE), 4),
        f"{_PREFIX}untag_100k_s": round(_timed(connection, untag, WIDE), 4),
    }


def _write(file: Path, lines: Iterable[str]) -> None:
    with file.open("w") as out:
        out.writelines(f"{line}\n" for line in lines)


def _timed(connection: ladybug.Connection, query: str, asset: str = "") -> float:
    """Seconds until the last row is read."""
    started = time.perf_counter()
    answer = connection.execute(query, {"id": asset} if asset else None)
    answer.get_all()
    return time.perf_counter() - started


def _p99(seconds: list[float]) -> float:
    return round(sorted(seconds)[max(0, round(0.99 * len(seconds)) - 1)], 6)
