"""What a masking view shows in the place of a column, as SQL."""

from __future__ import annotations

from collections.abc import Iterable

from psycopg import sql

from lily.domain.masks import HIDDEN, Mask, MaskKind
from lily.domain.protection import Effect, Protection
from lily.targets.enforcement.relations import Column
from lily.targets.enforcement.rights import Roles

_SALT = sql.SQL("(SELECT salt FROM lily_protection.salts)")


def shown(column: Column, protections: tuple[Protection, ...], owner: int, roles: Roles) -> sql.Composable:
    """The column for those whom every rule spares, for others what the strictest that does not shows.

    Whoever asks is recognised by the session's current role, once per query.
    """
    arms = [sql.SQL("WHEN {} THEN {}").format(_has([owner]), sql.Identifier(column.name))]
    otherwise: sql.Composable = sql.Identifier(column.name)
    for protection in protections:
        spared = spared_roles(protection, roles)
        masked = _masked(column, protection)
        if not spared:
            otherwise = masked
            break
        arms.append(sql.SQL("WHEN NOT {} THEN {}").format(_has(spared), masked))
    return sql.SQL("CASE {} ELSE {} END").format(sql.SQL(" ").join(arms), otherwise)


def spared_roles(protection: Protection, roles: Roles) -> list[int]:
    """The roles of the database that bear a name the rule excepts."""
    named = (roles.number(name) for name in protection.except_roles | protection.except_groups)
    return sorted(number for number in named if number is not None)


def _has(roles: Iterable[int]) -> sql.Composable:
    tests = (
        sql.SQL("pg_catalog.pg_has_role(CURRENT_USER, {}::oid, 'USAGE')").format(sql.Literal(role))
        for role in roles
    )
    return sql.SQL("(SELECT {})").format(sql.SQL(" OR ").join(tests))


def _masked(column: Column, protection: Protection) -> sql.Composable:
    is_denied = protection.effect is Effect.DENY
    mask = Mask() if is_denied else protection.mask.fitted(column.type)
    # The type is as PostgreSQL itself wrote it, its names quoted where they must be.
    value = sql.SQL("CAST({} AS " + column.type.replace("{", "{{").replace("}", "}}") + ")")
    cast = value.format(_value(mask, column))
    if column.collation is None:
        return cast
    return sql.SQL("{} COLLATE {}").format(cast, sql.Identifier(*column.collation))


def _value(mask: Mask, column: Column) -> sql.Composable:
    name = sql.Identifier(column.name)
    match mask.kind:
        case MaskKind.CONSTANT:
            return sql.Literal(mask.value)
        case MaskKind.HASH:
            digest = (
                "pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to({} || {}::text, 'UTF8')), 'hex')"
            )
            return sql.SQL(digest).format(_SALT, name)
        case MaskKind.PARTIAL:
            return _partial(mask, name)
        case MaskKind.DATE:
            return _truncated(mask, name, column.type)
        case _:
            return sql.SQL("NULL")


def _partial(mask: Mask, column: sql.Identifier) -> sql.Composable:
    """A value no longer than what would be shown is hidden as a whole."""
    text = (
        "CASE WHEN pg_catalog.length({0}::text) > {1} THEN pg_catalog.left({0}::text, {2}) || {4}"
        " || pg_catalog.right({0}::text, {3}) WHEN {0} IS NOT NULL THEN {4} END"
    )
    numbers = (sql.Literal(each) for each in (mask.first + mask.last, mask.first, mask.last))
    return sql.SQL(text).format(column, *numbers, sql.Literal(HIDDEN))


def _truncated(mask: Mask, column: sql.Identifier, data_type: str) -> sql.Composable:
    """In one zone for all: with the session's, whoever changes it would learn more."""
    text = (
        "pg_catalog.date_trunc({}, {}, 'UTC')"
        if "with time zone" in data_type
        else ("pg_catalog.date_trunc({}, {}::timestamp)")
    )
    return sql.SQL(text).format(sql.Literal(mask.unit), column)
