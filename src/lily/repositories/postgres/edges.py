"""Edges of lineage as they are read: very many, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from json.encoder import encode_basestring
from typing import NamedTuple

#: Separates ids and JSON in one long text: neither has it.
BETWEEN = "\x1f"
#: Ids asked for in one statement: few enough that it never pays to read a whole table instead.
_AT_ONCE = 2000
_PLAIN = '{"type":"DIRECT","masking":false,"subtype":null},"blocked_tags":[],"sources":'


class EdgeKey(NamedTuple):
    from_id: str
    to_id: str
    relationship_type: str


@dataclass(slots=True)
class Edges:
    """In the order they were found: of very many, few are looked at one by one."""

    from_ids: list[str] = field(default_factory=list)
    to_ids: list[str] = field(default_factory=list)
    relationship_types: list[str] = field(default_factory=list)
    #: What else is shown of them and when they were said, as PostgreSQL writes it; if they are described.
    #: Empty texts for one that is gone meanwhile.
    about: list[str] = field(default_factory=list)
    asserted_at: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, columns: Sequence[str | None]) -> Edges:
        """What a question about edges is answered with: one long text per column, or nothing."""
        return cls(*([] if each is None else each.split(BETWEEN) for each in columns))

    @classmethod
    def of(cls, keys: Iterable[EdgeKey]) -> Edges:
        """The edges with these keys, not described."""
        return cls(*map(list, zip(*keys, strict=True)))

    def __len__(self) -> int:
        return len(self.from_ids)

    def __iter__(self) -> Iterator[EdgeKey]:
        return map(EdgeKey, self.from_ids, self.to_ids, self.relationship_types)

    def parameters(self) -> dict[str, list[str]]:
        """Their keys, for a statement."""
        return {"from_ids": self.from_ids, "to_ids": self.to_ids, "types": self.relationship_types}

    def extend(self, more: Edges) -> None:
        for column, rest in zip(self._columns(), more._columns(), strict=True):
            column += rest

    def part(self, first: int, size: int) -> Edges:
        return Edges(*(column[first : first + size] for column in self._columns()))

    def where(self, holds: Iterable[bool]) -> Edges:
        """Those of them for which it holds."""
        chosen = list(holds)
        return Edges(*(list(compress(column, chosen)) for column in self._columns()))

    def documents(self) -> list[str]:
        """Each as JSON, as every interface shows it, of edges that are described; empty for one that is gone.

        Of most edges PostgreSQL tells just the sources. To put texts together here takes a third of what it
        takes there, a tenth of making objects first.
        """
        quoted = encode_basestring
        return [
            f'{{"from_asset_id":{quoted(from_id)},"to_asset_id":{quoted(to_id)},"relationship_type":"{kind}",'
            f'"transformation":{about if about[0] == "{" else _PLAIN + about},'
            f'"asserted_at":"{at[:10]}T{at[11:]}:00"}}'
            if about
            else ""
            for from_id, to_id, kind, about, at in zip(*self._columns(), strict=True)
        ]

    def _columns(self) -> tuple[list[str], ...]:
        return self.from_ids, self.to_ids, self.relationship_types, self.about, self.asserted_at


def parts(ids: Iterable[str]) -> Iterator[str]:
    """In the order of the index, a bounded number at a time, as one text: an array takes longer to write.

    An id with what separates them is nobody's, and must not be taken for two.
    """
    ordered = sorted(each for each in ids if BETWEEN not in each)
    for first in range(0, len(ordered), _AT_ONCE):
        yield BETWEEN.join(ordered[first : first + _AT_ONCE])
