"""Edges of lineage as they are read: very many, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
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

    def json(self, since: Sequence[str] | None = None) -> str:
        """As every interface shows them, a list without its brackets; one that is gone is left out.

        They have to be described; `since` has what else is told of each. Of most edges PostgreSQL tells just
        the sources: to put texts together here takes a third of what it takes there.
        """
        if not self:
            return ""
        told = since or [""] * len(self)
        if not all(self.about):
            there = list(map(bool, self.about))
            return self.where(there).json(list(compress(told, there)))
        from_ids, to_ids, quote = _quoted(self.from_ids, self.to_ids)
        about = [each if each[0] == "{" else _PLAIN + each for each in self.about]
        asserted_at = BETWEEN.join(self.asserted_at).replace(" ", "T").split(BETWEEN)
        return in_rows(
            f',{{"from_asset_id":{quote}',
            (from_ids, f'{quote},"to_asset_id":{quote}'),
            (to_ids, f'{quote},"relationship_type":"'),
            (self.relationship_types, '","transformation":'),
            (about, ',"asserted_at":"'),
            (asserted_at, ':00"'),
            (told, "}"),
        )[1:]

    def _columns(self) -> tuple[list[str], ...]:
        return self.from_ids, self.to_ids, self.relationship_types, self.about, self.asserted_at


def parts(ids: Iterable[str]) -> Iterator[str]:
    """In the order of the index, a bounded number at a time, as one text: an array takes longer to write.

    An id with what separates them is nobody's, and must not be taken for two.
    """
    ordered = sorted(each for each in ids if BETWEEN not in each)
    for first in range(0, len(ordered), _AT_ONCE):
        yield BETWEEN.join(ordered[first : first + _AT_ONCE])


def in_rows(first: str, *columns: tuple[Sequence[str], str]) -> str:
    """Row after row in one text: the first text, then a value of each column and the text that follows it.

    To lay out the pieces of all rows and join them once takes half of writing each row.
    """
    row = [first, *chain.from_iterable(("", after) for _, after in columns)]
    pieces = row * len(columns[0][0])
    for number, (values, _) in enumerate(columns):
        pieces[2 * number + 1 :: len(row)] = values
    return "".join(pieces)


def _quoted(from_ids: list[str], to_ids: list[str]) -> tuple[list[str], list[str], str]:
    """Ids as JSON has them, and what is missing around each: most need nothing but quotation marks."""
    every_one = "".join(from_ids) + "".join(to_ids)
    if every_one.isprintable() and '"' not in every_one and "\\" not in every_one:
        return from_ids, to_ids, '"'
    return list(map(encode_basestring, from_ids)), list(map(encode_basestring, to_ids)), ""
