"""Search paths with the schemas of masking views in them, each just before the schema it stands for.

They are set when a database is registered, long before the first mask: a session keeps the path it began
with, and a schema that is empty changes nothing. A role keeps its own order of schemas. Superusers, and roles
that own relations in a schema, look past its masking views: they are excepted, and what they say is about
tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import sql

from lily.targets.enforcement.rights import Items, Roles, Statement
from lily.targets.enforcement.views import shadow_of

#: Whose setting is the database's own.
EVERYBODY = 0
_ENTRY = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^\s,"]+))\s*(?:,|$)')


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema of somebody, who owns relations in it, and who may use it and the schema of its views.
    `is_taken`: somebody else has made a schema with the name of that one."""

    name: str
    has_shadow: bool
    is_taken: bool
    users: Items | None
    shadow_users: Items | None
    owners: frozenset[int]


@dataclass(frozen=True, slots=True)
class Login:
    number: int
    name: str
    is_superuser: bool


@dataclass(frozen=True, slots=True)
class Made:
    """A path Lily has set, and the one it replaced; None when there was none."""

    had: str | None
    made: str


@dataclass(frozen=True, slots=True)
class Settings:
    """The search paths set in a database: for roles here (0: for all), for roles everywhere, and else."""

    here: Mapping[int, str]
    everywhere: Mapping[int, str]
    default: str
    made: Mapping[int, Made] = field(default_factory=dict)

    def had(self, role: int) -> str | None:
        """What was set here before Lily; what somebody has set since counts."""
        made, now = self.made.get(role), self.here.get(role)
        return made.had if made and made.made == now else now


def read_path(text: str) -> list[str]:
    """The names in a search path, as PostgreSQL keeps it."""
    return [
        quoted.replace('""', '"') if quoted or not plain else plain for quoted, plain in _ENTRY.findall(text)
    ]


def write_path(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def wanted_paths(
    settings: Settings, schemas: Sequence[Schema], logins: Iterable[Login], roles: Roles
) -> dict[int, list[str]]:
    """The paths to be set in this database, by role; the others follow from the one for all."""
    names = {schema.name for schema in schemas if schema.has_shadow}
    general = settings.had(EVERYBODY) or settings.everywhere.get(EVERYBODY) or settings.default
    wanted = {EVERYBODY: _with_shadows(read_path(general), names, "")}
    for login in logins:
        own = settings.had(login.number) or settings.everywhere.get(login.number)
        past = names if login.is_superuser else _owned(login.number, schemas, roles)
        path = _with_shadows(read_path(own or general), names - past, login.name)
        if own is not None or path != wanted[EVERYBODY]:
            wanted[login.number] = path
    return wanted


def usage(schema: Schema, roles: Roles) -> Iterable[tuple[Statement, Statement]]:
    """Who may use a schema may use that of its masking views, and nobody else; each with what undoes it."""
    name = sql.Identifier(shadow_of(schema.name))
    if not schema.has_shadow:
        undo = sql.SQL("DROP SCHEMA IF EXISTS {}").format(name)
        yield sql.SQL("CREATE SCHEMA {}").format(name), undo
        text = sql.SQL("SELECT lily_protection.seclude({}::regnamespace)")
        yield text.format(sql.Literal(name.as_string(None))), undo
    wanted, has = _users(schema.users), _users(schema.shadow_users)
    if missing := [role for role in sorted(wanted - has) if role in roles]:
        yield _grant(name, roles.listed(missing)), _revoke(name, roles.listed(missing))
    own = {item.grantor for item in schema.shadow_users or ()}
    if excess := [role for role in sorted(has - wanted - own) if role in roles]:
        yield _revoke(name, roles.listed(excess)), _grant(name, roles.listed(excess))


def _grant(schema: sql.Identifier, roles: Statement) -> Statement:
    return sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, roles)


def _revoke(schema: sql.Identifier, roles: Statement) -> Statement:
    return sql.SQL("REVOKE ALL ON SCHEMA {} FROM {}").format(schema, roles)


def _users(items: Items | None) -> set[int]:
    return {item.grantee for item in items or () if any(right.startswith("USAGE") for right in item.held)}


def _owned(role: int, schemas: Iterable[Schema], roles: Roles) -> set[str]:
    acting = roles.acting_as(role) - {EVERYBODY}
    return {schema.name for schema in schemas if acting & schema.owners}


def _with_shadows(path: Iterable[str], shadowed: set[str], user: str) -> list[str]:
    """Every schema that has a shadow comes after it; `$user` stands for the schema of the user's name."""
    ours = {shadow_of(name) for name in shadowed}
    found: list[str] = []
    for name in path:
        schema = user if name == "$user" and user else name
        if schema in shadowed:
            found.append(shadow_of(schema))
        if name not in ours:
            found.append(name)
    return found
