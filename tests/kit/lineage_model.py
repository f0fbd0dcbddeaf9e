"""What propagation means, in plain Python: the oracle of functions/lineage.sql and functions/propagation.sql.

Nothing here is incremental. From everything that was said, in whatever order, it computes the state by
applying the rule until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from kit.model import Event, Row, state_of
from lily.domain.assets import Field

CONTAINS = "contains"
_SPREADING = {"@owner:": "asset_owner", "@term:": "business_terms", "@retention:": "metadata"}
_REGISTERS = {"source": Field.SOURCE_TAGS, "user": Field.USER_TAGS}


@dataclass(frozen=True)
class Said:
    """One statement: an edge, a tag, an opt-out or a tag's definition."""

    event_id: UUID
    event_time: datetime
    kind: str
    holds: bool = True
    source: str = "api"
    from_id: str = ""
    to_id: str = ""
    relationship_type: str = ""
    tags: tuple[str, ...] = ()
    body: dict[str, object] = field(default_factory=dict)

    @property
    def clock(self) -> tuple[datetime, UUID]:
        return self.event_time, self.event_id

    @property
    def edge(self) -> tuple[str, str, str]:
        return self.from_id, self.relationship_type, self.to_id


@dataclass(frozen=True)
class Edge:
    from_id: str
    relationship_type: str
    to_id: str
    is_indirect: bool
    is_masking: bool
    blocked: frozenset[str]


@dataclass(frozen=True)
class Rule:
    lineage: bool = False
    containment: bool = False
    indirect: bool = False
    stopped_by_masking: bool = True


BUILT_IN = {"PII": Rule(lineage=True), "GDPR": Rule(lineage=True)}

#: A tag that came over an edge which column lineage explains better is partial: it stays above the columns.
Fact = tuple[str, str, bool]  # asset, tag, is_partial


@dataclass
class World:
    """Everything said in one tenant."""

    said: list[Said] = field(default_factory=list)
    assets: list[Event] = field(default_factory=list)

    def effective(self) -> dict[str, frozenset[str]]:
        """The tags in force on every asset that has any."""
        facts = self._roots()
        edges, refined = self.edges(), self._refined()
        while True:
            new = {
                (edge.to_id, tag, arrives)
                for edge in edges
                for asset, tag, partial in facts
                if asset == edge.from_id
                if (arrives := self._carried(edge, tag, partial, refined)) is not None
            } - facts
            if not new:
                break
            facts |= new
        by_asset: dict[str, set[str]] = {}
        for asset, tag, _ in facts:
            by_asset.setdefault(asset, set()).add(tag)
        return {asset: frozenset(tags) for asset, tags in by_asset.items()}

    def asserted(self, asset: str) -> set[str]:
        """The tags somebody asserts on an asset."""
        holding = {(tag, source): clock for tag, source, holds, clock in self._assertions(asset) if holds}
        retracted = {tag: clock for tag, source, _, clock in self._assertions(asset) if source == "*"}
        return {tag for (tag, _), clock in holding.items() if tag not in retracted or clock > retracted[tag]}

    def edges(self) -> list[Edge]:
        """The edges at least one source asserts."""
        latest = _latest(self._of("edge"), lambda said: (said.edge, said.source))
        by_edge: dict[tuple[str, str, str], list[Said]] = {}
        for said in latest.values():
            retraction = latest.get((said.edge, "*"))
            if said.holds and not (retraction and retraction.clock > said.clock):
                by_edge.setdefault(said.edge, []).append(said)
        return [_merged(live) for live in by_edge.values()]

    def rule(self, tag: str) -> Rule:
        kind = next((kind for kind in _SPREADING if tag.startswith(kind)), None)
        definition = self._definition(f"{kind}*" if kind else tag)
        if definition is None:
            return BUILT_IN.get(tag, Rule())
        return Rule(**{name: bool(definition.body.get(name)) for name in Rule.__dataclass_fields__})

    def _definition(self, tag: str) -> Said | None:
        latest = _latest(self._of("definition"), lambda said: said.tags[0]).get(tag)
        return latest if latest and latest.holds else None

    def _roots(self) -> set[Fact]:
        assets = {said.from_id for said in self._of("tag")} | {event.asset_id for event in self.assets}
        everything = self._definition("*")
        keeps = bool(everything and everything.body.get("keep_when_deleted"))
        return {
            (asset, tag, False)
            for asset in assets
            if keeps or not self.is_gone(asset)
            for tag in self.asserted(asset) | self._spreading(asset)
        }

    def _spreading(self, asset: str) -> set[str]:
        """What the asset's fields say that is declared to spread."""
        row = self._row(asset) or {}
        found = set()
        for kind, name in _SPREADING.items():
            value = row.get(name)
            if name == "metadata":
                value = (value or {}).get("retention_class")
            if self._definition(f"{kind}*"):
                found |= {kind + each for each in (value if isinstance(value, list) else [value]) if each}
        return found

    def _carried(self, edge: Edge, tag: str, partial: bool, refined: set[tuple[str, str]]) -> bool | None:
        """Whether the tag arrives for a part only; None if it does not arrive."""
        rule = self.rule(tag)
        if {tag, "*"} & edge.blocked or (edge.is_masking and rule.stopped_by_masking):
            return None
        if self.is_gone(edge.to_id) or self._opted_out(edge.to_id, tag):
            return None
        if edge.relationship_type == CONTAINS:
            return False if rule.containment and not partial else None
        if not rule.lineage or (edge.is_indirect and not rule.indirect):
            return None
        return rule.containment and (edge.from_id, edge.to_id) in refined

    def _refined(self) -> set[tuple[str, str]]:
        """Pairs of assets between whose columns there is lineage."""
        edges = self.edges()
        holders: dict[str, set[str]] = {}
        for edge in edges:
            if edge.relationship_type == CONTAINS:
                holders.setdefault(edge.to_id, set()).add(edge.from_id)
        return {
            (above, below)
            for edge in edges
            if edge.relationship_type != CONTAINS
            for above in holders.get(edge.from_id, ())
            for below in holders.get(edge.to_id, ())
            if above != below
        }

    def is_gone(self, asset: str) -> bool:
        """Deleted, purged or not whole; an asset nobody spoke about is not in the way."""
        row = self._row(asset)
        if row is None:
            return False
        return bool(row["is_deleted"]) or row["asset_name"] is None or row["asset_type"] is None

    def _row(self, asset: str) -> Row | None:
        events = [event for event in self.assets if event.asset_id == asset]
        return state_of(events) if events else None

    def _opted_out(self, asset: str, tag: str) -> bool:
        said = [said for said in self._of("opt_out") if said.from_id == asset and tag in said.tags]
        return bool(said) and max(said, key=lambda one: one.clock).holds

    def _assertions(self, asset: str) -> Iterator[tuple[str, str, bool, tuple[datetime, UUID]]]:
        """What each source last said about each tag: singly, or by a list of all its tags."""
        single = [
            (tag, said.source, said.holds, said.clock)
            for said in self._of("tag")
            if said.from_id == asset
            for tag in said.tags
        ]
        lists = {
            source: max(of, key=lambda event: (event.event_time, event.event_id))
            for source, name in _REGISTERS.items()
            if (of := [event for event in self.assets if event.asset_id == asset and name in event.said])
        }
        tags = {tag for tag, *_ in single} | {
            tag for source, event in lists.items() for tag in event.said[_REGISTERS[source]] or ()
        }
        for tag in tags:
            for source in {source for _, source, *_ in single} | set(lists):
                words = [(clock, holds) for t, s, holds, clock in single if (t, s) == (tag, source)]
                if source in lists:
                    event = lists[source]
                    listed = tag in (event.said[_REGISTERS[source]] or ())
                    words.append(((event.event_time, event.event_id), listed))
                if words:
                    clock, holds = max(words)
                    yield tag, source, holds, clock

    def _of(self, kind: str) -> list[Said]:
        return [said for said in self.said if said.kind == kind]


def _latest(said: Iterable[Said], key: Callable[[Said], Hashable]) -> dict[Hashable, Said]:
    latest: dict[Hashable, Said] = {}
    for one in said:
        if key(one) not in latest or one.clock > latest[key(one)].clock:
            latest[key(one)] = one
    return latest


def _merged(live: list[Said]) -> Edge:
    newest = max(live, key=lambda said: said.clock)
    return Edge(
        *newest.edge,
        is_indirect=bool(newest.body.get("is_indirect")),
        is_masking=bool(newest.body.get("is_masking")),
        blocked=frozenset(tag for said in live for tag in said.tags),
    )
