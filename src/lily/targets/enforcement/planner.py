"""From how a relation is and what protects its columns to the statements in between. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

from psycopg import sql

from lily.domain.protection import Effect, Protection
from lily.targets.enforcement.drift import adopt
from lily.targets.enforcement.relations import Relation, Shield
from lily.targets.enforcement.rights import Rights, Roles, Statement, rebuild, strip
from lily.targets.enforcement.views import ViewPlan, spared_readers


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done to one relation, in one transaction, and what would undo it.

    `at_once` waits for nobody: where `statements` would wait for somebody's transaction, it denies meanwhile
    what they would mask. An `original` of None: the relation is as if Lily had never been there.
    """

    relation: Relation
    shield: Shield
    statements: tuple[Statement, ...]
    at_once: tuple[Statement, ...]
    undo: tuple[Statement, ...]
    original: Rights | None
    #: Who is to read a protected column itself, by its number.
    readers: Mapping[int, set[int]]
    #: Of the wanted state; with that of the view as it has become it tells whether anything changed since.
    wanted: str
    has_view: bool


def plan(relation: Relation, shield: Shield, roles: Roles) -> Work | None:
    """The work that makes the relation show no more than the shield allows; None when it does already."""
    shield = _fitting(relation, shield)
    original = _original(relation)
    if not shield:
        return _release(relation, original, roles) if _is_touched(relation) else None
    view = ViewPlan(relation, shield, original, roles)
    is_needed = relation.view is not None and relation.view.is_used
    has_view = is_needed or any(_is_masked(each) for each in shield.values())
    readers = _readers(relation, shield, original, roles)
    grants = tuple(_grants(relation, readers, roles))
    protected = {number: readers[number] for number in shield}
    wanted = _digest((*grants, *(view.wanted() if has_view else ())), original)
    if _is_done(relation, wanted, has_view) and not relation.rights.shows_more(protected, relation.owner):
        return None
    base = (*strip(relation.place, relation.rights, roles), *grants)
    made = view.make() if has_view else view.drop_all()
    return Work(
        relation=relation,
        shield=shield,
        statements=(*base, *view.tidy(), *made),
        at_once=(*base, *view.hide()),
        undo=tuple(_undo(relation, view, roles)),
        original=original,
        readers=protected,
        wanted=wanted,
        has_view=has_view,
    )


def fingerprint(wanted: str, view: str | None) -> str:
    """What is kept of a finished work, to see later whether anybody changed it."""
    return f"{wanted}:{view or ''}"


def _is_done(relation: Relation, wanted: str, has_view: bool) -> bool:
    record, view = relation.record, relation.view
    seen = view.fingerprint if view else None
    return (
        record is not None
        and record.fingerprint == fingerprint(wanted, seen)
        and record.enforced == relation.rights
        and has_view == (view is not None)
        and not relation.strays
    )


def _original(relation: Relation) -> Rights:
    record = relation.record
    actual = relation.stripped or relation.rights
    if record is None:
        return actual
    numbers = [column.number for column in relation.columns]
    return adopt(record.original, record.enforced, actual, numbers, relation.owner)


def _release(relation: Relation, original: Rights, roles: Roles) -> Work:
    view = ViewPlan(relation, {}, original, roles)
    is_needed = relation.view is not None and relation.view.is_used
    viewed = view.uncover() if is_needed else view.drop_all()
    statements = (*view.tidy(), *viewed, *rebuild(relation.place, relation.rights, original, roles))
    undo = tuple(_undo(relation, view, roles))
    return Work(relation, {}, statements, (), undo, None, {}, "", False)


def _is_touched(relation: Relation) -> bool:
    has_view = relation.view is not None and not relation.view.is_used
    return bool(relation.record or relation.stripped or relation.strays or has_view)


def _undo(relation: Relation, view: ViewPlan, roles: Roles) -> Iterator[Statement]:
    """Back to the rights as they are, and to no view where there is none."""
    if relation.view is None:
        yield view.drop()
    else:
        yield view.again(relation.view.definition)
    after = Rights(relation.rights.relation, {})
    yield from rebuild(relation.place, after, relation.rights, roles)


def _fitting(relation: Relation, shield: Shield) -> Shield:
    """A view would show all what only some may see of such a relation: what would be masked is denied."""
    if not relation.takes_no_view:
        return shield
    return {
        number: tuple(replace(each, effect=Effect.DENY) for each in protections)
        for number, protections in shield.items()
    }


def _is_masked(protections: tuple[Protection, ...]) -> bool:
    return any(each.effect is Effect.MASK for each in protections)


def _readers(relation: Relation, shield: Shield, original: Rights, roles: Roles) -> dict[int, set[int]]:
    """Of each column: of an open one all who could read it, of a protected one those every rule spares."""
    readers = {}
    for column in relation.columns:
        could = original.readers(column.number, relation.owner)
        if column.number in shield:
            could = spared_readers(shield[column.number], could, roles)
        readers[column.number] = could - {relation.owner}
    return readers


def _grants(relation: Relation, readers: Mapping[int, set[int]], roles: Roles) -> Iterator[Statement]:
    """Columns by name in the place of the right to the whole."""
    by_role: dict[int, list[str]] = {}
    for column in relation.columns:
        for role in readers[column.number]:
            by_role.setdefault(role, []).append(column.name)
    for role, names in sorted(by_role.items()):
        if role in roles:
            columns = sql.SQL(", ").join(map(sql.Identifier, names))
            statement = sql.SQL("GRANT SELECT ({}) ON TABLE {} TO {}")
            yield statement.format(columns, relation.identifier, roles.name(role))


def _digest(statements: tuple[Statement, ...], original: Rights) -> str:
    text = "\n".join(statement.as_string(None) for statement in statements)
    return sha256(f"{text}\n{original.document()}".encode()).hexdigest()[:32]
