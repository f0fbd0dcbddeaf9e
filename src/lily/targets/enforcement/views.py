"""The masking view of a relation: the same columns in the same order, and the same rights to write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import md5

from psycopg import sql

from lily.domain.protection import Effect, Protection
from lily.targets.enforcement.expressions import shown, spared_roles
from lily.targets.enforcement.relations import Column, Relation, Shield
from lily.targets.enforcement.rights import RIGHTS, Rights, Roles, Statement

SHADOW_PREFIX = "lily_masked_"
_LONGEST = 63 - len(SHADOW_PREFIX)


def shadow_of(schema: str) -> str:
    """The schema of the masking views; as lily_protection.shadow says."""
    short = len(schema.encode()) <= _LONGEST
    return SHADOW_PREFIX + (schema if short else md5(schema.encode(), usedforsecurity=False).hexdigest())


class ViewPlan:
    """Statements about the view of one relation under a shield, with the rights there were before Lily."""

    def __init__(self, relation: Relation, shield: Shield, original: Rights, roles: Roles) -> None:
        self._relation = relation
        self._shield = shield
        self._original = original
        self._roles = roles
        self.name = sql.Identifier(shadow_of(relation.schema), relation.name)

    def make(self) -> Iterator[Statement]:
        """Make the view or change it to what it must be, its rights and triggers included."""
        view = self._relation.view
        if view and not self._continues():
            yield self.drop()
        yield self._create()
        if view and self._continues():
            yield sql.SQL("REVOKE ALL ON TABLE {} FROM {} CASCADE").format(self.name, self._others())
        yield from self._grants()
        yield from self._triggers()

    def wanted(self) -> Iterator[Statement]:
        """What the view must be, whatever it is now."""
        yield self._create()
        yield from self._grants()
        yield from self._triggers()

    def drop(self) -> Statement:
        return sql.SQL("DROP VIEW IF EXISTS {}").format(self.name)

    def again(self, definition: str) -> Statement:
        """The view as it was, by what PostgreSQL told of it."""
        text = definition.rstrip().rstrip(";").replace("{", "{{").replace("}", "}}")
        statement = "CREATE OR REPLACE VIEW {} WITH (security_barrier) AS " + text
        return sql.SQL(statement).format(self.name)

    def uncover(self) -> Iterator[Statement]:
        """Make the view show what the relation shows; for one that somebody else's view is made of."""
        unprotected = ViewPlan(self._relation, {}, self._original, self._roles)
        yield from unprotected.make()

    def hide(self) -> Iterator[Statement]:
        """Deny the protected columns of the view as it is, until it can be changed: this waits for nobody."""
        names = [column.name for column in self._relation.columns if column.number in self._shield]
        known = {name for name, _ in self._relation.view.columns} if self._relation.view else set()
        if columns := [sql.Identifier(name) for name in names if name in known]:
            text = sql.SQL("REVOKE SELECT ({}) ON TABLE {} FROM {} CASCADE")
            yield text.format(sql.SQL(", ").join(columns), self.name, self._others())

    def _continues(self) -> bool:
        """Whether PostgreSQL lets the view be replaced: it has these columns, maybe fewer at the end."""
        view = self._relation.view
        wanted = [(column.name, column.type) for column in self._relation.columns]
        return view is not None and wanted[: len(view.columns)] == [*view.columns]

    def _create(self) -> Statement:
        columns = sql.SQL(", ").join(
            sql.SQL("{} AS {}").format(self._shown(column), sql.Identifier(column.name))
            for column in self._relation.columns
        )
        statement = sql.SQL("CREATE OR REPLACE VIEW {} WITH (security_barrier) AS SELECT {} FROM {}")
        return statement.format(self.name, columns, self._relation.identifier)

    def _shown(self, column: Column) -> sql.Composable:
        protections = self._shield.get(column.number)
        if not protections:
            return sql.Identifier(column.name)
        return shown(column, protections, self._relation.owner, self._roles)

    def _grants(self) -> Iterator[Statement]:
        owner, original = self._relation.owner, self._original
        by_role: dict[int, list[str]] = {}
        for column in self._relation.columns:
            for role in self.readers(column):
                by_role.setdefault(role, []).append(column.name)
        for role, names in sorted(by_role.items()):
            yield from self._grant("SELECT", names, role)
        for right in ("INSERT", "UPDATE", "DELETE"):
            for role in sorted(original.holders(right, owner)):
                yield from self._grant(right, [], role)
        for right in ("INSERT", "UPDATE"):
            for column in self._relation.columns:
                for role in sorted(original.holders(right, owner, column.number)):
                    yield from self._grant(right, [column.name], role)

    def readers(self, column: Column) -> set[int]:
        """Who may name the column in the view: everybody who could read it, a denied one only the spared."""
        could = self._original.readers(column.number, self._relation.owner)
        denials = [each for each in self._shield.get(column.number, ()) if each.effect is Effect.DENY]
        return could if not denials else spared_readers(denials, could, self._roles)

    def _grant(self, right: str, names: list[str], role: int) -> Iterator[Statement]:
        if role in self._roles:
            what: Statement = RIGHTS[right]
            if names:
                what = sql.SQL("{} ({})").format(what, sql.SQL(", ").join(map(sql.Identifier, names)))
            yield sql.SQL("GRANT {} ON TABLE {} TO {}").format(what, self.name, self._roles.name(role))

    def _triggers(self) -> Iterator[Statement]:
        """Through the view protected columns can be written too, by those who may."""
        relation, original = self._relation, self._original
        numbers = [None, *(column.number for column in relation.columns)]
        for event in ("INSERT", "UPDATE"):
            name = sql.Identifier(f"lily_{event.lower()}")
            yield sql.SQL("DROP TRIGGER IF EXISTS {} ON {}").format(name, self.name)
            if not self._shield or not any(original.holders(event, relation.owner, n) for n in numbers):
                continue
            if event == "UPDATE" and not self._has_open_key():
                continue
            arguments = (str(relation.oid), _array(self._filled()), _array(relation.key))
            statement = sql.SQL(
                "CREATE TRIGGER {} INSTEAD OF {} ON {} FOR EACH ROW"
                " EXECUTE FUNCTION lily_protection.write({})"
            )
            literals = sql.SQL(", ").join(map(sql.Literal, arguments))
            yield statement.format(name, RIGHTS[event], self.name, literals)
        yield from self._defaults()

    def _defaults(self) -> Iterator[Statement]:
        """What is left out when inserting is filled in as the relation would."""
        for column in self._relation.columns:
            if column.default is not None and self._shield:
                # The expression is as PostgreSQL itself wrote it.
                text = column.default.replace("{", "{{").replace("}", "}}")
                statement = sql.SQL("ALTER VIEW {} ALTER COLUMN {} SET DEFAULT " + text)
                yield statement.format(self.name, sql.Identifier(column.name))

    def _filled(self) -> list[str]:
        return [column.name for column in self._relation.columns if column.is_filled]

    def _has_open_key(self) -> bool:
        key = set(self._relation.key)
        numbers = {column.number for column in self._relation.columns if column.name in key}
        return bool(numbers) and not numbers & self._shield.keys()

    def _others(self) -> sql.Composed:
        everyone = {0, *self._original.grantees(self._relation.owner), *_spared(self._shield, self._roles)}
        return self._roles.listed(sorted(everyone))


def spared_readers(protections: Iterable[Protection], readers: set[int], roles: Roles) -> set[int]:
    """Of the roles that none of these protects a column from, those who could read it, themselves or as
    members."""
    spared = set.intersection(*(set(spared_roles(each, roles)) for each in protections))
    return {role for role in spared if roles.acting_as(role) & readers}


def _spared(shield: Shield, roles: Roles) -> set[int]:
    return {role for each in shield.values() for p in each for role in spared_roles(p, roles)}


def _array(names: list[str] | tuple[str, ...]) -> str:
    """As PostgreSQL reads an array of texts."""
    quoted = (name.replace("\\", "\\\\").replace('"', '\\"') for name in names)
    return "{" + ",".join(f'"{name}"' for name in quoted) + "}"
