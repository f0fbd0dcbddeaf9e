"""Rights on a relation as PostgreSQL keeps them, in their order, and the statements that make them so."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from psycopg import sql

Statement = sql.SQL | sql.Composed
PUBLIC = 0
#: By which somebody learns what is in a relation: a trigger sees rows, a foreign key tells what exists.
READING = frozenset({"SELECT", "REFERENCES", "TRIGGER"})
#: What PostgreSQL calls the rights to relations and columns: no name it tells is put into a statement.
RIGHTS = {
    "SELECT": sql.SQL("SELECT"),
    "INSERT": sql.SQL("INSERT"),
    "UPDATE": sql.SQL("UPDATE"),
    "DELETE": sql.SQL("DELETE"),
    "TRUNCATE": sql.SQL("TRUNCATE"),
    "REFERENCES": sql.SQL("REFERENCES"),
    "TRIGGER": sql.SQL("TRIGGER"),
    "MAINTAIN": sql.SQL("MAINTAIN"),
}


@dataclass(frozen=True, slots=True)
class Item:
    """What one role was given by another; a right that may be passed on ends in `*`."""

    grantor: int
    grantee: int
    held: tuple[str, ...]

    def only(self, *, reading: bool) -> tuple[str, ...]:
        return tuple(right for right in self.held if (right.rstrip("*") in READING) == reading)


Items = tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Rights:
    """On a relation (None when nobody ever changed them) and on its columns by number."""

    relation: Items | None
    columns: Mapping[int, Items]

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        columns = {int(number): _items(items) for number, items in document["columns"].items()}
        return cls(read_items(document["relation"]), columns)

    def document(self) -> dict[str, Any]:
        relation = None if self.relation is None else _lists(self.relation)
        return {"relation": relation, "columns": {str(n): _lists(items) for n, items in self.columns.items()}}

    def grantees(self, owner: int) -> list[int]:
        """Everybody but the owner who has any right, in a stable order."""
        everything = [self.relation or (), *self.columns.values()]
        return sorted({item.grantee for items in everything for item in items} - {owner})

    def holders(self, right: str, owner: int, column: int | None = None) -> set[int]:
        """Everybody but the owner with a right on the relation, or on one of its columns by itself."""
        items = (self.relation or ()) if column is None else self.columns.get(column, ())
        return {item.grantee for item in items if right in {held.rstrip("*") for held in item.held}} - {owner}

    def shows_more(self, readers: Mapping[int, Container[int]], owner: int) -> bool:
        """Whether anybody but the owner learns what is in the whole, or in a column they are no reader of."""
        whole = any(item.grantee != owner and item.only(reading=True) for item in self.relation or ())
        return whole or any(
            item.grantee != owner and item.grantee not in allowed and item.only(reading=True)
            for number, allowed in readers.items()
            for item in self.columns.get(number, ())
        )

    def readers(self, column: int, owner: int) -> set[int]:
        return self.holders("SELECT", owner) | self.holders("SELECT", owner, column)


class Roles:
    """Roles as statements name them, and whose rights each has; a role that is gone is nobody."""

    def __init__(self, names: Mapping[int, str], memberships: Mapping[int, frozenset[int]]) -> None:
        self._names = names
        self._numbers = {name: number for number, name in names.items()}
        self._memberships = memberships

    def __contains__(self, role: int) -> bool:
        return role == PUBLIC or role in self._names

    def name(self, role: int) -> sql.Composable:
        return sql.SQL("PUBLIC") if role == PUBLIC else sql.Identifier(self._names[role])

    def listed(self, roles: Iterable[int]) -> sql.Composed:
        return sql.SQL(", ").join(self.name(role) for role in roles if role in self)

    def number(self, name: str) -> int | None:
        return self._numbers.get(name)

    def acting_as(self, role: int) -> set[int]:
        """The grantees whose rights a role has."""
        return {role, PUBLIC} | self._memberships.get(role, frozenset())


@dataclass(frozen=True, slots=True)
class Place:
    """The relation a statement is about: its name, its owner, and its columns' names by number."""

    name: sql.Composable
    owner: int
    columns: Mapping[int, str]


def strip(place: Place, rights: Rights, roles: Roles) -> Iterator[Statement]:
    """Take every right to read, on the relation and on all its columns, from everybody but the owner.

    Rights that were passed on end with those they came from, and all came from the owner at last.
    """
    if grantees := [role for role in rights.grantees(place.owner) if role in roles]:
        statement = sql.SQL("REVOKE SELECT, REFERENCES, TRIGGER ON TABLE {} FROM {} CASCADE")
        yield statement.format(place.name, roles.listed(grantees))


def rebuild(place: Place, now: Rights, wanted: Rights, roles: Roles) -> Iterator[Statement]:
    """Make the rights exactly these, in this order, whoever granted them."""
    if now == wanted:
        return
    owner = place.owner
    anew = _predicted(now, wanted, owner) != _known(wanted, roles)
    grantees = [role for role in now.grantees(owner) if role in roles]
    if anew and now.relation is not None:
        grantees.append(owner)
    if grantees:
        statement = sql.SQL("REVOKE ALL ON TABLE {} FROM {} CASCADE")
        yield statement.format(place.name, roles.listed(grantees))
    for item in wanted.relation or ():
        if item.grantee != owner or anew:
            yield from _granted(place, item, None, roles)
    for number, items in sorted(wanted.columns.items()):
        for item in items:
            if number in place.columns and (item.grantee != owner or anew):
                yield from _granted(place, item, place.columns[number], roles)


def _predicted(now: Rights, wanted: Rights, owner: int) -> list[Item]:
    """The order that comes of keeping what the owner has and granting the rest anew."""
    kept = [item for item in now.relation or () if item.grantee == owner]
    return kept + [item for item in wanted.relation or () if item.grantee != owner]


def _known(wanted: Rights, roles: Roles) -> list[Item]:
    return [item for item in wanted.relation or () if item.grantee in roles]


def _granted(place: Place, item: Item, column: str | None, roles: Roles) -> Iterator[Statement]:
    if item.grantee not in roles or item.grantor not in roles:
        return
    is_passed_on = item.grantor != place.owner
    if is_passed_on:
        yield sql.SQL("SET LOCAL ROLE {}").format(roles.name(item.grantor))
    for with_option in (False, True):
        held = [right.rstrip("*") for right in item.held if right.endswith("*") == with_option]
        if held:
            on = sql.SQL(" ({})").format(sql.Identifier(column)) if column is not None else sql.SQL("")
            what = sql.SQL(", ").join(RIGHTS[right] + on for right in held)
            option = sql.SQL(" WITH GRANT OPTION" if with_option else "")
            statement = sql.SQL("GRANT {} ON TABLE {} TO {}{}")
            yield statement.format(what, place.name, roles.name(item.grantee), option)
    if is_passed_on:
        yield sql.SQL("RESET ROLE")


def read_items(document: Iterable[Any] | None) -> Items | None:
    return None if document is None else _items(document)


def _items(document: Iterable[Any]) -> Items:
    """What one gave the other is one item, even if it was found bit by bit."""
    by_pair: dict[tuple[int, int], list[str]] = {}
    for grantor, grantee, held in document:
        known = by_pair.setdefault((grantor, grantee), [])
        known += [right for right in held if right not in known]
    return tuple(Item(*pair, tuple(held)) for pair, held in by_pair.items())


def _lists(items: Items) -> list[Any]:
    return [[item.grantor, item.grantee, list(item.held)] for item in items]
