"""Random histories of edges, tags, rules and assets, applied as the pipeline does, compared with the oracle.

Many tenants run at once, each with a history of its own: a batch holds a piece of every history.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID

import psycopg
import pyarrow as pa

from kit.events import at, next_id
from kit.lineage_model import Said, World
from kit.model import Event, purge
from kit.staging import batch_of
from kit.staging import stage as stage_assets
from lily.domain.assets import Field, Lane
from lily.pipeline.statement_staging import SCHEMA
from lily.repositories.postgres.applier import Applier, Batch
from lily.repositories.postgres.lineage_applier import LineageApplier
from lily.repositories.postgres.propagator import MOST_TOGETHER, Done, Propagator, TooMuch

Piece = list[Said | Event]
History = list[Piece]

_ASSETS = tuple("abcdefghijklmnopqrstuvwx")
_TYPES = ("derived-from", "derived-from", "used-in", "contains")
_TAGS = ("PII", "wide", "idle")
_SPREADING = ("@owner:*", "@term:*", "@retention:*", "*")
_SOURCES = ("api", "sql")


def history(seed: int, pieces: int = 4, scale: int = 1) -> History:
    """A random history in pieces; within and between them statements come late, early and twice."""
    dice = random.Random(seed)
    nodes = _ASSETS[: scale * dice.randint(3, 6)]
    said: Piece = []
    for _ in range(scale * dice.randint(6, 16)):
        minute = dice.randint(1, 60)
        said.append(dice.choices(_MAKERS, _WEIGHTS)[0](dice, nodes, minute))
    if dice.random() < 0.7:
        said.insert(0, _definition(dice, nodes, 0, tag="wide", lineage=True, containment=True))
    said += dice.sample(said, len(said) // 5)  # delivered twice
    if dice.random() < 0.5:
        dice.shuffle(said)
    cuts = sorted(dice.randint(0, len(said)) for _ in range(pieces - 1))
    return [said[start:end] for start, end in zip([0, *cuts], [*cuts, len(said)], strict=True)]


def random_edges(seed: int, nodes: str, number: int) -> Piece:
    """What several sources say, and take back, about the edges between a few assets."""
    dice = random.Random(seed)
    return [_edge(dice, nodes, dice.randint(1, 60)) for _ in range(number)]


def _edge(dice: random.Random, nodes: Sequence[str], minute: int) -> Said:
    holds = dice.random() < 0.75
    blocked = tuple(dice.sample((*_TAGS, "*"), dice.randint(1, 2))) if dice.random() < 0.2 else ()
    body: dict[str, object] = {name: dice.random() < 0.15 for name in ("is_masking", "is_indirect")}
    body["subtype"] = dice.choice((None, "FILTER", "JOIN"))
    return Said(
        next_id(),
        at(minute),
        "edge",
        holds,
        dice.choice(_SOURCES) if holds or dice.random() < 0.6 else "*",
        dice.choice(nodes),
        dice.choice(nodes),
        dice.choice(_TYPES),
        blocked if holds else (),
        body if holds else {},
    )


def _tag(dice: random.Random, nodes: Sequence[str], minute: int) -> Said:
    holds = dice.random() < 0.65
    source = dice.choice(("user", "user", "classifier")) if holds or dice.random() < 0.6 else "*"
    tags = tuple(dice.sample(_TAGS, dice.randint(1, 2)))
    return Said(next_id(), at(minute), "tag", holds, source, dice.choice(nodes), tags=tags)


def _opt_out(dice: random.Random, nodes: Sequence[str], minute: int) -> Said:
    tags = (dice.choice(_TAGS),)
    return Said(next_id(), at(minute), "opt_out", dice.random() < 0.6, "user", dice.choice(nodes), tags=tags)


def _definition(
    dice: random.Random, _nodes: Sequence[str], minute: int, tag: str = "", **switches: bool
) -> Said:
    names = ("lineage", "containment", "indirect", "stopped_by_masking")
    body: dict[str, object] = {name: dice.random() < 0.6 for name in names} | dict(switches)
    body["keep_when_deleted"] = dice.random() < 0.7
    holds = bool(tag) or dice.random() < 0.85
    tags = (tag or dice.choice((*_TAGS, *_TAGS, *_SPREADING)),)
    return Said(next_id(), at(minute), "definition", holds, "user", tags=tags, body=body)


def _asset(dice: random.Random, nodes: Sequence[str], minute: int) -> Event:
    asset = dice.choice(nodes)
    if dice.random() < 0.1:
        return purge(next_id(), at(minute), asset)
    said: dict[Field, Any] = {}
    if dice.random() < 0.8:
        said |= {Field.ASSET_NAME: asset, Field.ASSET_TYPE: "table"}
    if dice.random() < 0.5:
        said[Field.IS_DELETED] = dice.choice((True, False, None))
    if dice.random() < 0.4:
        name = dice.choice((Field.USER_TAGS, Field.SOURCE_TAGS))
        said[name] = dice.choice((None, ["PII"], ["PII", "wide"], ["idle"]))
    if dice.random() < 0.3:
        said[Field.ASSET_OWNER] = dice.choice((None, "ada", "bo"))
    if dice.random() < 0.2:
        said[Field.BUSINESS_TERMS] = dice.choice((None, ["sales"], ["sales", "tax"]))
    if dice.random() < 0.2:
        said[Field.METADATA] = dice.choice((None, {"x": 1}, {"retention_class": "7y"}))
    return Event(next_id(), at(minute), asset, said or {Field.DESCRIPTION: "text"})


_MAKERS = (_edge, _tag, _asset, _opt_out, _definition)
_WEIGHTS = (8, 5, 4, 1, 1.5)


@dataclass
class Told:
    """What a subscriber of the change events believes."""

    tags: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def hear(self, asset: str, added: Sequence[str], removed: Sequence[str]) -> None:
        known = self.tags[asset]
        assert not known & set(added), f"{asset} is told {added} again"
        assert known >= set(removed), f"{asset} is told it lost {removed}, which it did not have"
        assert added or removed, f"{asset} is told nothing"
        self.tags[asset] = (known | set(added)) - set(removed)


class Graph:
    """A database, written as the pipeline writes it."""

    def __init__(self, url: str, most_together: int = MOST_TOGETHER) -> None:
        self.url = url
        self.applier = LineageApplier(url)
        self.assets = Applier(url)
        self.propagator = Propagator(url, most_together=most_together)
        self.apart = Propagator(url, most_together=most_together)
        self.connection = psycopg.connect(url, autocommit=True)
        self._batches = count(1)
        self._applied: list[tuple[Applier, Batch, pa.Table]] = []
        self._told = 0

    def close(self) -> None:
        for part in (self.applier, self.assets, self.propagator, self.apart, self.connection):
            part.close()

    def apply(self, pieces: dict[str, Piece], propagate: bool = True) -> None:
        """A piece of every tenant's history, as one batch of each query."""
        batch_id = next(self._batches)
        statements = [
            _staged(said, tenant)
            for tenant, piece in pieces.items()
            for said in piece
            if isinstance(said, Said)
        ]
        if statements:
            numbered = [one | {"offset": offset} for offset, one in enumerate(statements)]
            staged = pa.Table.from_pylist(numbered, SCHEMA)
            self._apply(self.applier, batch_of(len(numbered), batch_id, Lane.LINEAGE), staged)
        tables = [
            stage_assets(events, tenant)
            for tenant, piece in pieces.items()
            if (events := [said for said in piece if isinstance(said, Event)])
        ]
        if tables:
            staged = pa.concat_tables(tables)
            offsets = pa.array(range(staged.num_rows), pa.int64())
            staged = staged.set_column(staged.schema.get_field_index("offset"), "offset", offsets)
            self._apply(self.assets, batch_of(staged.num_rows, batch_id, Lane.STRUCTURAL), staged)
        if propagate:
            self.follow()

    def follow(self) -> Done:
        """Propagate until nothing is left to do; what was done in all."""
        taken = told = 0
        while done := self.propagator.run() or self.apart.run_apart():
            taken, told = taken + done.taken, told + done.told
        return Done(taken, told)

    def _apply(self, applier: Applier, batch: Batch, staged: pa.Table) -> None:
        applier.apply_table(batch, staged)
        self._applied.append((applier, batch, staged))

    def crash(self) -> None:
        """Propagation dies before its commit, and the last batches, of which nobody knows, come once more."""
        connection = self.propagator._open()
        with suppress(TooMuch), connection.transaction(force_rollback=True), connection.cursor() as cursor:
            self.propagator._follow(cursor)
        for part in (self.applier, self.assets, self.propagator, self.apart):
            part.close()
        for applier, batch, staged in self._applied[-2:]:
            applier.apply_table(batch, staged)

    def effective(self, *tenants: str) -> dict[str, dict[str, frozenset[str]]]:
        """The tags in force, of every tenant or of these."""
        found: dict[str, dict[str, frozenset[str]]] = defaultdict(dict)
        rows = self.connection.execute(
            "SELECT tenant_id, asset_id, array_agg(DISTINCT tag) FROM effective_tags"
            " WHERE %(all)s OR tenant_id = ANY(%(tenants)s) GROUP BY 1, 2",
            {"all": not tenants, "tenants": list(tenants)},
        )
        for tenant, asset, tags in rows:
            found[tenant][asset] = frozenset(tags)
        return found

    def followed(self, tenant: str) -> int:
        """How many of a tenant's statements count with all that follows from them."""
        row = self.connection.execute(
            "SELECT applied FROM count_settled('{0}', ARRAY[%s], %s, %s, '{t}')",
            (tenant, [UUID(int=0)], [UUID(int=2**128 - 1)]),
        ).fetchone()
        return int(row[0]) if row else 0

    def hear(self, told: dict[str, Told]) -> None:
        """Pass on the change events that were written since."""
        rows = self.connection.execute(
            "SELECT seq, tenant_id, asset_id, added, removed FROM tag_changes WHERE seq > %s ORDER BY seq",
            (self._told,),
        ).fetchall()
        for seq, tenant, asset, added, removed in rows:
            told[tenant].hear(asset, added, removed)
            self._told = seq


def _staged(said: Said, tenant: str) -> dict[str, Any]:
    return {
        "topic": "made-by-the-test",
        "partition": 0,
        "event_id": str(said.event_id),
        "tenant_id": tenant,
        "event_time": said.event_time,
        "received_at": said.event_time,
        "actor": "ada",
        "kind": said.kind,
        "source": said.source,
        "holds": said.holds,
        "from_id": said.from_id or None,
        "to_id": said.to_id or None,
        "relationship_type": said.relationship_type or None,
        "tags": list(said.tags) or None,
        "body": json.dumps(said.body),
    }


def difference(graph: Graph, histories: dict[str, History]) -> str | None:
    """Run the histories side by side; where first the database is not as it must be."""
    worlds = {tenant: World() for tenant in histories}
    told: dict[str, Told] = defaultdict(Told)
    for step in range(max(map(len, histories.values()))):
        pieces = {tenant: of[step] if step < len(of) else [] for tenant, of in histories.items()}
        if step % 2:
            graph.apply(pieces, propagate=False)
            graph.crash()
            graph.apply({})
        else:
            graph.apply(pieces)
        found = graph.effective(*histories)
        try:
            graph.hear(told)
        except AssertionError as error:
            return f"step {step}: {error}"
        for tenant, piece in pieces.items():
            world = worlds[tenant]
            world.said += [said for said in piece if isinstance(said, Said)]
            world.assets += [said for said in piece if isinstance(said, Event)]
            wanted, is_there = world.effective(), found.get(tenant, {})
            if wanted != is_there:
                return f"{tenant} step {step}: wanted {wanted}, found {is_there}"
            believed = {asset: frozenset(tags) for asset, tags in told[tenant].tags.items() if tags}
            if believed != wanted:
                return f"{tenant} step {step}: wanted {wanted}, told {believed}"
    return None
