"""The masking view of a relation: the same columns in the same order, and the same rights to write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from hashlib import md5

from psycopg import sql

from lily.domain.protection import Effect, Protection
from lily.targets.enforcement.expressions import shown, spared_roles
from lily.targets.enforcement.relations import Column, Relation, Shield
from lily.targets.enforcement.rights import RIGHTS, Rights, Roles, Statement

SHADOW_PREFIX = "lily_masked_"
_LONGEST = 63 - len(SHADOW_PREFIX)
#: With the rights of whoever reads it, not of its owner.
_OPEN, _BARRIER = sql.SQL("security_invoker"), sql.SQL("security_barrier")


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
        if self._relation.view and not self._continues():
            yield self.drop()
        yield from self._rename()
        yield self._create()
        yield _seclude(self.name)
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
        """Make the view, which somebody else's is made of, show to each what the relation shows them.

        It reads with its reader's rights: it shows nothing that is revoked when Lily looks no more.
        """
        if not self._continues():
            yield _seclude(self.name)
            return
        yield from self._rename()
        yield self._create(_OPEN)
        yield from self._triggers()
        yield sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE {} TO PUBLIC").format(self.name)

    def hide(self) -> Iterator[Statement]:
        """Deny the protected columns of the view as it is, until it can be changed: this waits for nobody."""
        yield from (_seclude(stray.identifier) for stray in self._relation.strays)
        if self._relation.view is None:
            return
        yield _seclude(self.name)
        if self._continues():
            columns = zip(self._relation.columns, self._relation.view.columns, strict=False)
            called = {column.number: name for column, (name, _) in columns}
            yield from self._grants(called, self._shield.keys())

    def tidy(self) -> Iterator[Statement]:
        """Away with views from before the relation was renamed; one that another is made of shows nothing."""
        for stray in self._relation.strays:
            drop = sql.SQL("DROP VIEW {}").format(stray.identifier)
            yield _seclude(stray.identifier) if stray.is_used else drop

    def drop_all(self) -> Iterator[Statement]:
        if self._relation.view is not None:
            yield self.drop()

    def _continues(self) -> bool:
        """Whether PostgreSQL lets the view be replaced: its columns are of these types, if maybe fewer."""
        view = self._relation.view
        wanted = [column.type for column in self._relation.columns]
        return view is not None and wanted[: len(view.columns)] == [kind for _, kind in view.columns]

    def _rename(self) -> Iterator[Statement]:
        """Columns that were renamed in the relation; by a name of nobody's, because two may have swapped."""
        view = self._relation.view
        if view is None or not self._continues():
            return
        pairs = zip(view.columns, self._relation.columns, strict=False)
        changed = [(name, column) for (name, _), column in pairs if name != column.name]
        statement = sql.SQL("ALTER VIEW {} RENAME COLUMN {} TO {}")
        between = [sql.Identifier(f"lily_renamed_{column.number}") for _, column in changed]
        for (name, _), passing in zip(changed, between, strict=True):
            yield statement.format(self.name, sql.Identifier(name), passing)
        for (_, column), passing in zip(changed, between, strict=True):
            yield statement.format(self.name, passing, sql.Identifier(column.name))

    def _create(self, how: Statement = _BARRIER) -> Statement:
        columns = sql.SQL(", ").join(
            sql.SQL("{} AS {}").format(self._shown(column), sql.Identifier(column.name))
            for column in self._relation.columns
        )
        statement = sql.SQL("CREATE OR REPLACE VIEW {} WITH ({}) AS SELECT {} FROM {}")
        return statement.format(self.name, how, columns, self._relation.identifier)

    def _shown(self, column: Column) -> sql.Composable:
        protections = self._shield.get(column.number)
        if not protections:
            return sql.Identifier(column.name)
        return shown(column, protections, self._relation.owner, self._roles)

    def _grants(
        self, called: Mapping[int, str] | None = None, hidden: AbstractSet[int] = frozenset()
    ) -> Iterator[Statement]:
        """The rights to the view; `called`: its columns by number, where they are not the relation's."""
        if self._relation.takes_no_view:
            return
        columns = self._relation.place.columns if called is None else called
        by_role: dict[int, list[str]] = {}
        for column in self._relation.columns:
            if column.number in columns and column.number not in hidden:
                for role in self.readers(column):
                    by_role.setdefault(role, []).append(columns[column.number])
        for role, names in sorted(by_role.items()):
            yield from self._grant("SELECT", names, role)
        yield from self._grants_to_write(columns)

    def _grants_to_write(self, columns: Mapping[int, str]) -> Iterator[Statement]:
        owner, original = self._relation.owner, self._original
        for right in ("INSERT", "UPDATE", "DELETE"):
            for role in sorted(original.holders(right, owner)):
                yield from self._grant(right, [], role)
        for right in ("INSERT", "UPDATE"):
            for number, name in sorted(columns.items()):
                for role in sorted(original.holders(right, owner, number)):
                    yield from self._grant(right, [name], role)

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


def spared_readers(protections: Iterable[Protection], readers: set[int], roles: Roles) -> set[int]:
    """Of the roles that none of these protects a column from, those who could read it, themselves or as
    members."""
    spared = set.intersection(*(set(spared_roles(each, roles)) for each in protections))
    return {role for role in spared if roles.acting_as(role) & readers}


def _seclude(view: sql.Identifier) -> Statement:
    """Take all rights on the view from everybody, default privileges' included."""
    text = sql.SQL("SELECT lily_protection.seclude({}::regclass)")
    return text.format(sql.Literal(view.as_string(None)))


def _array(names: list[str] | tuple[str, ...]) -> str:
    """As PostgreSQL reads an array of texts."""
    quoted = (name.replace("\\", "\\\\").replace('"', '\\"') for name in names)
    return "{" + ",".join(f'"{name}"' for name in quoted) + "}"
