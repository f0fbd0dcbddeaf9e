"""The least fixed point of tags over edges, of one tenant and the tags of one rule: breadth first, in arrays.

Arrays instead of one Spark job per hop: a chain of 10,000 is 10,000 hops. A million edges take about 200 MB.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Ints = np.ndarray[Any, np.dtype[np.int64]]

FACTS = """
    tenant_id STRING, asset_id STRING, tag STRING, is_partial BOOLEAN, is_asserted BOOLEAN, via_from STRING,
    via_type STRING, via_is_partial BOOLEAN
"""
ROOT, OPT_OUT = "root", "opt_out"


@dataclass(frozen=True)
class Links:
    """Edges sorted by where they start; a node is an asset and whether a tag stands for a part of it."""

    names: pa.Array
    starts: Ints  # of node n the edges starts[n] to starts[n + 1]
    sources: Ints
    targets: Ints
    types: pa.Array
    blocked: dict[str, Ints]

    def leaving(self, nodes: Ints) -> Ints:
        """The edges that leave these nodes."""
        first, number = self.starts[nodes], self.starts[nodes + 1] - self.starts[nodes]
        ends = np.cumsum(number)
        if not len(ends) or not ends[-1]:
            return np.empty(0, np.int64)
        places: Ints = np.arange(ends[-1]) + np.repeat(first - (ends - number), number)
        return places


def close(said: pa.Table, carriers: pa.Table) -> pa.Table:
    """Roots and opt-outs (`kind`) and the edges that carry in, all facts out."""
    links = _links(said, carriers)
    numbers = pc.index_in(said["asset_id"], value_set=links.names).to_numpy()
    by_tag: dict[tuple[str, str], list[int]] = defaultdict(list)
    for kind, tag, number in zip(said["kind"].to_pylist(), said["tag"].to_pylist(), numbers, strict=True):
        by_tag[kind, tag].append(int(number))
    tenant = said["tenant_id"][0].as_py()
    found = [_facts(links, tag, facts) for tag, facts in _reached(links, by_tag)]
    table = pa.concat_tables(found)
    return table.add_column(0, "tenant_id", pa.repeat(tenant, table.num_rows))


def _reached(links: Links, by_tag: dict[tuple[str, str], list[int]]) -> Iterator[tuple[str, Any]]:
    """For every tag its nodes in the order of hops, each with the edge it was reached over, -1 for roots."""
    seen = np.full(2 * len(links.names), -1)
    closed = np.full(len(links.names), -1)
    stopped = np.full(len(links.targets), -1)
    for turn, tag in enumerate(tag for kind, tag in by_tag if kind == ROOT):
        closed[by_tag.get((OPT_OUT, tag), [])] = turn
        stopped[links.blocked.get(tag, [])] = turn
        frontier = np.unique(np.array(by_tag[ROOT, tag], np.int64)) * 2
        nodes, over = [frontier], [np.full(len(frontier), -1)]
        seen[frontier] = turn
        while len(frontier):
            edges = links.leaving(frontier)
            ends = links.targets[edges]
            edges = edges[(stopped[edges] != turn) & (closed[ends // 2] != turn) & (seen[ends] != turn)]
            frontier, first = np.unique(links.targets[edges], return_index=True)
            seen[frontier] = turn
            nodes.append(frontier)
            over.append(edges[first])
        yield tag, (np.concatenate(nodes), np.concatenate(over))


def _facts(links: Links, tag: str, reached: tuple[Ints, Ints]) -> pa.Table:
    nodes, over = reached
    edges = pa.array(over, mask=over < 0)
    sources = links.sources[over] if len(links.sources) else over
    return pa.table(
        {
            "asset_id": links.names.take(pa.array(nodes // 2)),
            "tag": pa.repeat(tag, len(nodes)),
            "is_partial": pa.array(nodes % 2 == 1),
            "is_asserted": pa.array(over < 0),
            "via_from": links.names.take(pa.array(sources // 2, mask=over < 0)),
            "via_type": links.types.take(edges),
            "via_is_partial": pa.array(sources % 2 == 1, mask=over < 0),
        }
    )


def _links(said: pa.Table, carriers: pa.Table) -> Links:
    ids = [said["asset_id"], carriers["from_id"], carriers["to_id"]]
    names = pc.unique(pa.chunked_array([chunk for column in ids for chunk in column.chunks], pa.string()))

    def nodes(end: str) -> Ints:
        number: Ints = pc.index_in(carriers[f"{end}_id"], value_set=names).to_numpy().astype(np.int64)
        partial: Ints = carriers[f"{end}_is_partial"].to_numpy().astype(np.int64)
        return number * 2 + partial

    sources = nodes("from")
    order = np.argsort(sources, kind="stable")
    blocked: dict[str, list[int]] = defaultdict(list)
    lists = carriers["blocked_tags"].combine_chunks().take(pa.array(order))
    for edge in np.flatnonzero(pc.list_value_length(lists).to_numpy(zero_copy_only=False)):
        for tag in lists[int(edge)].as_py():
            blocked[tag].append(int(edge))
    return Links(
        names=names,
        starts=np.searchsorted(sources[order], np.arange(2 * len(names) + 1)),
        sources=sources[order],
        targets=nodes("to")[order],
        types=carriers["relationship_type"].combine_chunks().take(pa.array(order)),
        blocked={tag: np.array(edges) for tag, edges in blocked.items()},
    )
