"""Recomputes every effective tag from what was said, without anything incremental, and compares (or repairs).

Reads PostgreSQL in parts, all of one moment; Spark makes edges, refinements and facts of it anew.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lily.domain.errors import Unavailable
from lily.pipeline.closures import FACTS, OPT_OUT, ROOT, close
from lily.pipeline.transforms.lineage import EDGE, RULE, carriers_of, edges_of, refinements_of, rule_name
from lily.repositories.postgres.jdbc import jdbc_login, jdbc_url
from lily.repositories.postgres.rebuilds import Moment, Repair, Tag, settled_moment

_TRIES = 5
_SHOWN = 20
_PAIR = ["tenant_id", "from_id", "to_id"]
_FACT = ["tenant_id", "asset_id", "tag", "is_partial", "is_asserted"]
_EDGE = [*EDGE, "is_indirect", "is_masking", "subtype", "blocked_tags", "sources", "asserted_at"]


@dataclass(frozen=True)
class Report:
    """How much there is, and what of it was not as it must be; `examples` are some of that."""

    edges: int
    facts: int
    differences: dict[str, int]
    examples: list[dict[str, Any]]

    @property
    def is_right(self) -> bool:
        return not any(self.differences.values())


@dataclass(frozen=True)
class Compared:
    """A table as it is and as it must be."""

    missing: DataFrame
    extra: DataFrame

    def rows(self, which: str, columns: list[str]) -> list[tuple[Any, ...]]:
        frame = self.missing if which == "missing" else self.extra
        return [tuple(row) for row in frame.select(*columns).toLocalIterator()]


def check(session: SparkSession, url: str, tenant: str = "") -> Report:
    """What differs, of one tenant or of all."""
    with settled_moment(url, tenant) as moment, closing(Rebuild(session, url, moment)) as rebuild:
        return rebuild.report()


def repair(session: SparkSession, url: str, tenant: str, say: Callable[[str], None]) -> Report:
    """The same, and put right; `Unavailable` when writes keep coming in between."""
    for _ in range(_TRIES):
        with settled_moment(url, tenant) as moment, closing(Rebuild(session, url, moment)) as rebuild:
            report = rebuild.report()
            if report.is_right or rebuild.repair().apply(url, moment.positions, uuid4()):
                return report
        say("something was written meanwhile; once more …")
    raise Unavailable("writes keep coming; try again when fewer do, or stop them for the moment")


class Rebuild:
    """One recomputation at one moment."""

    def __init__(self, session: SparkSession, url: str, moment: Moment) -> None:
        self._session = session
        self._url = url
        self._moment = moment
        self.edges = edges_of(self._read("edge_assertions")).cache()
        self.pairs = refinements_of(self.edges).cache()
        self.facts = self._facts().cache()
        stored = _sorted_lists(self._read("edges"))
        self._compared = {
            "edges": _compare(_sorted_lists(self.edges), stored, _EDGE),
            "refined_pairs": _compare(self.pairs, self._read("refined_pairs"), _PAIR),
            "effective_tags": _compare(self.facts, self._read("effective_tags"), _FACT),
        }

    def report(self) -> Report:
        unrooted = self._moment.unrooted()
        differences = {"unrooted_facts": sum(unrooted.values())}
        examples: list[dict[str, Any]] = [
            {"what": "unrooted_facts", "tenant_id": tenant, "tag": tag, "facts": number}
            for (tenant, tag), number in list(unrooted.items())[:_SHOWN]
        ]
        for table, compared in self._compared.items():
            for which, frame in (("missing", compared.missing), ("extra", compared.extra)):
                name = f"{which}_{table}"
                differences[name] = frame.count()
                examples += [{"what": name} | row.asDict() for row in frame.take(_SHOWN)]
        return Report(self.edges.count(), self.facts.count(), differences, examples)

    def close(self) -> None:
        """Let go of what Spark keeps in memory."""
        differences = [frame for each in self._compared.values() for frame in (each.missing, each.extra)]
        for frame in (*differences, self.facts, self.pairs, self.edges):
            frame.unpersist()

    def repair(self) -> Repair:
        edges, pairs = self._compared["edges"], self._compared["refined_pairs"]
        tags = self._wrong_tags()
        wrong = self._session.createDataFrame(tags, "tenant_id STRING, tag STRING") if tags else None
        facts = self.facts.join(F.broadcast(wrong), ["tenant_id", "tag"], "leftsemi") if wrong else None
        columns = [*_FACT, "via_from", "via_type", "via_is_partial"]
        return Repair(
            tags=tags,
            facts=(tuple(row) for row in facts.select(*columns).toLocalIterator()) if facts else (),
            edges=edges.rows("missing", _EDGE),
            gone_edges=edges.rows("extra", EDGE),
            pairs=pairs.rows("missing", _PAIR),
            gone_pairs=pairs.rows("extra", _PAIR),
        )

    def _wrong_tags(self) -> list[Tag]:
        compared = self._compared["effective_tags"]
        rows = compared.missing.union(compared.extra).select("tenant_id", "tag").distinct().collect()
        return sorted({(row[0], row[1]) for row in rows} | set(self._moment.unrooted()))

    def _facts(self) -> DataFrame:
        roots = self._read("roots", "assets").union(self._read("single_roots", "tag_assertions")).distinct()
        rules = roots.select("tenant_id", *RULE).distinct()
        carriers = carriers_of(self.edges, self.pairs, rules).join(
            self._read("gone", "assets").withColumnRenamed("asset_id", "to_id"),
            ["tenant_id", "to_id"],
            "leftanti",
        )
        declined = self._read("opt_outs", "tag_opt_outs").join(rules, "tenant_id")
        said = roots.withColumn("kind", F.lit(ROOT)).unionByName(declined.withColumn("kind", F.lit(OPT_OUT)))
        said = said.select("tenant_id", "asset_id", "tag", rule_name(), "kind")
        key = ["tenant_id", "rule"]
        return said.groupBy(*key).cogroup(carriers.groupBy(*key)).applyInArrow(_close, FACTS)

    def _read(self, name: str, table: str = "") -> DataFrame:
        """All parts of a table at the moment."""
        user, password = jdbc_login(self._url)
        snapshot = f"SET TRANSACTION SNAPSHOT '{self._moment.snapshot}'"
        source = (
            self._session.read.format("jdbc")
            .option("url", jdbc_url(self._url))
            .option("driver", "org.postgresql.Driver")
            .option("user", user)
            .option("password", password)
            .option("fetchsize", "10000")  # not 0: else each statement is a transaction of its own
            .option("sessionInitStatement", f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; {snapshot}")
        )
        parts = self._moment.parts(table or name)
        queries = [f"({self._moment.query(name, part)}) AS part" for part in parts]
        return reduce(DataFrame.union, (source.option("dbtable", query).load() for query in queries))


def _close(said: pa.Table, carriers: pa.Table) -> pa.Table:
    roots = said.filter(pc.equal(said["kind"], ROOT))
    return close(said, carriers) if roots.num_rows else _NOTHING


_NOTHING = pa.table(
    {
        "tenant_id": pa.array([], pa.string()),
        "asset_id": pa.array([], pa.string()),
        "tag": pa.array([], pa.string()),
        "is_partial": pa.array([], pa.bool_()),
        "is_asserted": pa.array([], pa.bool_()),
        "via_from": pa.array([], pa.string()),
        "via_type": pa.array([], pa.string()),
        "via_is_partial": pa.array([], pa.bool_()),
    }
)


def _compare(wanted: DataFrame, stored: DataFrame, columns: list[str]) -> Compared:
    must, is_there = wanted.select(*columns), stored.select(*columns)
    return Compared(must.exceptAll(is_there).cache(), is_there.exceptAll(must).cache())


def _sorted_lists(edges: DataFrame) -> DataFrame:
    """PostgreSQL sorts by the database's collation, Spark by bytes."""
    return edges.withColumns({name: F.sort_array(name) for name in ("blocked_tags", "sources")})
