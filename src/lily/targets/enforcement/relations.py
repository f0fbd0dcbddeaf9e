"""What the catalog of a target database tells about a relation, and what Lily did to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from lily.domain.external_ids import qualified
from lily.domain.masks import NULL
from lily.domain.protection import Effect, Protection
from lily.targets.enforcement.rights import Place, Rights

#: All that protects each column of a relation, the strictest first; by the column's number.
Shield = Mapping[int, tuple[Protection, ...]]


@dataclass(frozen=True, slots=True)
class Column:
    """`type` is as PostgreSQL writes it, that of a domain being the one below; `default` is an expression.
    `is_filled`: PostgreSQL gives the value itself (identity, generated)."""

    number: int
    name: str
    type: str
    collation: tuple[str, str] | None
    default: str | None
    is_filled: bool


@dataclass(frozen=True, slots=True)
class Record:
    """What Lily keeps about a relation it protects."""

    #: Every schema and name it has had since, and every name of each protected column, by its number: what
    #: protects them may be known by any.
    places: tuple[tuple[str, str], ...]
    shield: Mapping[int, tuple[str, ...]]
    original: Rights
    enforced: Rights
    fingerprint: str


@dataclass(frozen=True, slots=True)
class View:
    """The masking view as it is; `is_used`: somebody else's view is made of it."""

    fingerprint: str
    columns: Sequence[tuple[str, str]]
    is_used: bool
    definition: str


@dataclass(frozen=True, slots=True)
class Stray:
    """A masking view that is in nobody's way any more; `is_used`: somebody else's view is made of it."""

    schema: str
    name: str
    is_used: bool

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)


@dataclass(frozen=True, slots=True)
class Relation:
    oid: int
    schema: str
    name: str
    kind: str
    owner: int
    #: What it shows depends on who asks, and a view would ask for everybody with its owner's rights: it has
    #: row-level security, is a foreign table, or is a view that reads with its reader's rights. Or there is
    #: no schema of Lily's where the view could be.
    takes_no_view: bool
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    #: What it is directly part of, and its direct parts.
    relatives: tuple[int, ...]
    rights: Rights
    record: Record | None
    view: View | None
    #: Rights that others granted and the guard took away again.
    stripped: Rights | None
    #: Masking views from before it was renamed.
    strays: tuple[Stray, ...] = ()

    @property
    def label(self) -> str:
        return qualified(self.schema, self.name)

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """Every schema and name it has, or had while it was protected."""
        known = self.record.places if self.record else ()
        return tuple(dict.fromkeys((*known, (self.schema, self.name))))

    def names(self, column: Column) -> tuple[str, ...]:
        """Every name the column has, or had while it was protected."""
        known = self.record.shield.get(column.number, ()) if self.record else ()
        return tuple(dict.fromkeys((*known, column.name)))

    @property
    def place(self) -> Place:
        return Place(self.identifier, self.owner, {column.number: column.name for column in self.columns})


def read_relation(row: Sequence[Any]) -> Relation:
    """A row of the query `read_relations`."""
    record, view, stripped, strays = row[10:14]
    oid, schema, name, kind, owner, takes_no_view = row[:6]
    return Relation(
        oid=oid,
        schema=schema,
        name=name,
        kind=kind,
        owner=owner,
        takes_no_view=takes_no_view,
        columns=tuple(_column(*each) for each in row[6]),
        key=tuple(row[7]),
        relatives=tuple(row[8]),
        rights=Rights.read(row[9]),
        record=None if record is None else _record(*record),
        view=None if view is None else _view(*view),
        stripped=None if stripped is None else Rights.read(stripped),
        strays=tuple(Stray(*each) for each in strays),
    )


def _column(
    number: int, name: str, data_type: str, collation: Any, default: str | None, filled: bool
) -> Column:
    return Column(number, name, data_type, tuple(collation) if collation else None, default, filled)


def _record(places: Any, shield: Any, rights: Any, enforced: Any, fingerprint: str) -> Record:
    # An older release kept one name.
    names = {int(number): ([known] if isinstance(known, str) else known) for number, known in shield.items()}
    return Record(
        places=tuple((schema, name) for schema, name in places),
        shield={number: tuple(known) for number, known in names.items()},
        original=Rights.read(rights),
        enforced=Rights.read(enforced),
        fingerprint=fingerprint,
    )


def _view(fingerprint: str, columns: Any, is_used: bool, definition: str) -> View:
    return View(fingerprint, [(name, kind) for name, kind in columns], is_used, definition)


#: Nobody but its owner reads a relation that is not known yet.
UNKNOWN = Protection("unknown", Effect.DENY, NULL)


def shields(
    relations: Iterable[Relation], protections: Mapping[str, tuple[Protection, ...]], database: str
) -> dict[int, Shield]:
    """What protects the columns of each relation, by its oid.

    `protections` is by the column's external id. A column that was renamed, or whose relation was, keeps what
    protected it under the old name; the parts of a relation and what it is part of share what protects them,
    column by column, because each shows the rows of the other.
    """
    found = list(relations)
    own = {relation.oid: _own(relation, protections, database) for relation in found}
    shared = _shared(found, own)
    return {
        relation.oid: {
            column.number: by_name
            for column in relation.columns
            if (by_name := shared[relation.oid].get(column.name))
        }
        for relation in found
    }


def _own(
    relation: Relation, protections: Mapping[str, tuple[Protection, ...]], database: str
) -> dict[str, tuple[Protection, ...]]:
    by_name = {}
    for column in relation.columns:
        keys = {
            qualified(database, *place, name) for place in relation.places for name in relation.names(column)
        }
        merged = {each for key in keys for each in protections.get(key, ())}
        if merged:
            by_name[column.name] = _ordered(merged)
    return by_name


def _shared(
    relations: list[Relation], own: dict[int, dict[str, tuple[Protection, ...]]]
) -> dict[int, dict[str, tuple[Protection, ...]]]:
    by_oid, seen = {each.oid: each for each in relations}, set[int]()
    result: dict[int, dict[str, tuple[Protection, ...]]] = {}
    for relation in relations:
        if relation.oid in seen:
            continue
        family = _family(relation.oid, by_oid)
        seen |= family
        merged: dict[str, set[Protection]] = {}
        for oid in family:
            for name, protections in own[oid].items():
                merged.setdefault(name, set()).update(protections)
        ordered = {name: _ordered(protections) for name, protections in merged.items()}
        result |= dict.fromkeys(family, ordered)
    return result


def _family(start: int, by_oid: Mapping[int, Relation]) -> set[int]:
    family, frontier = {start}, [start]
    while frontier:
        fresh = [oid for oid in by_oid[frontier.pop()].relatives if oid in by_oid and oid not in family]
        family.update(fresh)
        frontier += fresh
    return family


def _ordered(protections: Iterable[Protection]) -> tuple[Protection, ...]:
    return tuple(sorted(protections, key=lambda each: each.strictness))
