"""What a target database needs before anything in it can be masked, made once and looked after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from lily.repositories.postgres.queries import load
from lily.targets.enforcement.connections import Connection, fetch, read_roles, told
from lily.targets.enforcement.controls import Control, Said
from lily.targets.enforcement.paths import (
    EVERYBODY,
    Login,
    Made,
    Schema,
    Settings,
    read_path,
    usage,
    wanted_paths,
    write_path,
)
from lily.targets.enforcement.rights import Roles, Statement, read_items
from lily.targets.enforcement.views import shadow_of

#: Takes down what was said.
Record = Callable[[list[Said]], None]
_CONTROL, _TARGET = load("enforcement_control.sql"), load("enforcement_target.sql")


@dataclass(frozen=True, slots=True)
class Options:
    """`deny_unknown`: nobody but the owner reads a relation before Lily knows it."""

    salt: str
    deny_unknown: bool = False


class Preparation:
    """Of the database a connection leads to."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options
        #: What was said since it was last recorded.
        self._said: list[Said] = []
        self._control = Control(connection, self._said)

    def furnish(self) -> None:
        """Make what Lily keeps in the database; `SomebodyElses` when another has made it in its place."""
        with self._connection.transaction():
            self._control.furnish()
            fetch(self._connection, _CONTROL["end_work"])
        self._control.keep()

    def make(self, record: Record = lambda _: None) -> list[str]:
        """Make what masks will need, and see to it that sessions begun from now on are ready for them.

        Returns what could not be done, in words. What was said is recorded before it comes into force.
        """
        with self._connection.transaction():
            problems = self._make()
            if self._said:
                record([*self._said])
                self._said.clear()
        self._control.keep()
        return problems

    @contextmanager
    def imagined(self) -> Iterator[list[str]]:
        """Made, and afterwards as if it had never been."""
        with self._connection.transaction(force_rollback=True):
            yield self._make()
        self._said.clear()

    def drop(self) -> list[str]:
        """As if Lily had never been here; nothing is protected any more.

        Returns what stays, in words: views that others are made of.
        """
        with self._connection.transaction():
            leaving = self.leaving()
            if leaving:
                fetch(self._connection, _CONTROL["begin_work"])
            left = [each for statement in leaving[:-1] for each in self._attempt(statement, statement)]
            for statement in leaving[-1:]:
                self._connection.execute(statement)
            return left

    def leaving(self) -> list[Statement]:
        """The statements that leave nothing of Lily; the last of them ends its own schema and the guard."""
        if not self._control.is_there():
            return []
        roles, settings = read_roles(self._connection), self._settings()
        paths = [self._path_back(role, settings.had(role), roles) for role in settings.made]
        shadows = [sql.Identifier(shadow_of(each.name)) for each in self._schemas() if each.has_shadow]
        dropped = [sql.SQL("DROP SCHEMA {}").format(name) for name in shadows]
        return [*paths, *dropped, sql.SQL(_CONTROL["drop_control"])]

    def _make(self) -> list[str]:
        self._control.furnish()
        fetch(self._connection, _CONTROL["set_salt"], {"salt": self._options.salt})
        fetch(self._connection, _CONTROL["set_options"], {"deny_unknown": self._options.deny_unknown})
        problems = self._control.post_guard() + self._make_shadows() + self._set_paths()
        fetch(self._connection, _CONTROL["end_work"])
        return problems

    def _make_shadows(self) -> list[str]:
        problems: list[str] = []
        roles = read_roles(self._connection)
        for schema in self._schemas():
            if schema.is_taken:
                problems.append(
                    f"the schema {shadow_of(schema.name)} is somebody else's: what would be masked in"
                    f" {schema.name} is denied until it is dropped or renamed"
                )
                continue
            for statement, undo in usage(schema, roles):
                problems += self._attempt(statement, undo)
        return problems

    def _set_paths(self) -> list[str]:
        problems: list[str] = []
        roles, schemas = read_roles(self._connection), self._schemas()
        settings = self._settings()
        wanted = wanted_paths(settings, schemas, self._logins(), roles)
        for role, path in sorted(wanted.items()):
            if role not in settings.here or read_path(settings.here[role]) != path:
                refused = self._attempt(
                    self._path_statement(role, write_path(path), roles),
                    self._path_back(role, settings.had(role), roles),
                )
                problems += refused
                if not refused:
                    self._keep_path(role, settings.had(role))
        for role in settings.made.keys() - wanted.keys():
            again = self._path_back(role, settings.made[role].made, roles)
            problems += self._attempt(self._path_back(role, settings.had(role), roles), again)
            fetch(self._connection, _TARGET["forget_path"], {"role": role})
        return problems

    def _keep_path(self, role: int, had: str | None) -> None:
        made = self._settings().here[role]
        fetch(self._connection, _TARGET["put_path"], {"role": role, "had": had, "made": made})

    def _path_statement(self, role: int, path: sql.Composable, roles: Roles) -> Statement:
        database = sql.Identifier(self._connection.info.dbname)
        if role == EVERYBODY:
            return sql.SQL("ALTER DATABASE {} SET search_path = {}").format(database, path)
        statement = sql.SQL("ALTER ROLE {} IN DATABASE {} SET search_path = {}")
        return statement.format(roles.name(role), database, path)

    def _path_back(self, role: int, had: str | None, roles: Roles) -> Statement:
        database = sql.Identifier(self._connection.info.dbname)
        if role != EVERYBODY and role not in roles:
            return sql.SQL("SELECT")
        whose = (
            sql.SQL("DATABASE {}").format(database)
            if role == EVERYBODY
            else sql.SQL("ROLE {} IN DATABASE {}").format(roles.name(role), database)
        )
        if had is None:
            return sql.SQL("ALTER {} RESET search_path").format(whose)
        return sql.SQL("ALTER {} SET search_path = {}").format(whose, write_path(read_path(had)))

    def _attempt(self, statement: Statement, undo: Statement) -> list[str]:
        try:
            with self._connection.transaction():
                self._connection.execute(statement)
            self._said.append((statement.as_string(self._connection), undo.as_string(self._connection)))
            return []
        except psycopg.Error as error:
            return [f"{statement.as_string(self._connection)}: {told(error)}"]

    def _logins(self) -> list[Login]:
        return [Login(*row[:3]) for row in fetch(self._connection, _TARGET["read_roles"]) if row[3]]

    def _schemas(self) -> list[Schema]:
        return [
            Schema(name, has_shadow, is_taken, read_items(users), read_items(shadow_users), frozenset(owners))
            for name, has_shadow, is_taken, users, shadow_users, owners in fetch(
                self._connection, _TARGET["read_schemas"]
            )
        ]

    def _settings(self) -> Settings:
        rows = fetch(self._connection, _TARGET["read_paths"])
        made = {
            role: Made(had, made) for role, had, made in fetch(self._connection, _TARGET["read_made_paths"])
        }
        return Settings(
            here={role: path for role, is_here, path in rows if is_here},
            everywhere={role: path for role, is_here, path in rows if not is_here},
            default=self._default_path(),
            made=made,
        )

    def _default_path(self) -> str:
        try:
            with self._connection.transaction():
                return str(fetch(self._connection, _TARGET["read_default_path"])[0][0])
        except psycopg.errors.InsufficientPrivilege:
            return str(fetch(self._connection, _TARGET["read_boot_path"])[0][0])
