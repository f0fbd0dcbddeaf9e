"""Derives edges from SQL text: which tables and columns a statement reads, and what it makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope

from lily.domain.errors import InvalidInput

MAX_SQL = 100_000
#: The columns of every table the catalog knows, by its qualified name in lower case.
Schemas = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class DerivedEdge:
    """From one table or column to another; a column is named `table.column`."""

    source: str
    target: str
    is_column: bool
    is_indirect: bool = False
    subtype: str = "TRANSFORMATION"


def tables_in(sql: str, dialect: str, default_schema: str) -> list[str]:
    """The qualified names of all tables a text speaks of."""
    found = [
        _name(table, default_schema)
        for statement in _parsed(sql, dialect)
        for table in statement.find_all(exp.Table)
    ]
    return list(dict.fromkeys(found))


def derive_edges(sql: str, dialect: str, default_schema: str, schemas: Schemas) -> list[DerivedEdge]:
    """The edges of every statement that writes a table; one that only reads has none."""
    edges: dict[DerivedEdge, None] = {}
    for statement in _parsed(sql, dialect):
        target, query, columns = _parts(statement)
        if target is None or query is None:
            continue
        name = _name(target, default_schema)
        scope = _scope(query, dialect, default_schema, schemas)
        if scope is not None:
            edges |= dict.fromkeys(_edges_of(scope, name, columns, default_schema))
    return list(edges)


def _parsed(sql: str, dialect: str) -> list[exp.Expression]:
    if len(sql) > MAX_SQL:
        raise InvalidInput(f"/sql: {len(sql):,} characters; at most {MAX_SQL:,} are read at once")
    try:
        return [each for each in sqlglot.parse(sql, read=dialect or None) if each is not None]  # type: ignore[misc]
    except (SqlglotError, ValueError, RecursionError) as error:
        raise InvalidInput(f"/sql: {str(error)[:500]}") from None


def _parts(statement: exp.Expression) -> tuple[exp.Table | None, exp.Expression | None, list[str]]:
    """What a statement writes, from which query, and into which columns if it names them."""
    if not isinstance(statement, exp.Create | exp.Insert):
        return None, None, []
    target, columns = statement.this, []
    if isinstance(target, exp.Schema):
        columns = [each.name for each in target.expressions if isinstance(each, exp.Identifier)]
        target = target.this
    query = statement.expression
    usable = isinstance(target, exp.Table) and isinstance(query, exp.Query)
    return (target, query, columns) if usable else (None, None, [])


def _scope(query: exp.Expression, dialect: str, default_schema: str, schemas: Schemas) -> Scope | None:
    nested: dict[str, Any] = {}
    for name, columns in schemas.items():
        schema, _, table = name.rpartition(".")
        nested.setdefault(schema or default_schema, {})[table] = dict.fromkeys(columns, "text")
    try:
        qualified = qualify(
            query.copy(),
            dialect=dialect or None,
            db=default_schema or None,
            schema=nested if default_schema or all(nested) else None,
            validate_qualify_columns=False,
            identify=False,
        )
        return build_scope(qualified)
    except (SqlglotError, RecursionError) as error:
        raise InvalidInput(f"/sql: {str(error)[:500]}") from None


def _edges_of(scope: Scope, target: str, columns: list[str], default_schema: str) -> Iterator[DerivedEdge]:
    for name in _tables(scope, default_schema):
        yield DerivedEdge(name, target, is_column=False)
    names = columns or [output.alias_or_name for output in _outputs(scope)]
    for branch in _branches(scope):
        for made, output in zip(names, _outputs(branch), strict=False):
            for column in _origins(branch, output, default_schema):
                yield DerivedEdge(
                    column, f"{target}.{made}".lower(), is_column=True, subtype=_subtype(output)
                )
    for column in _filters(scope, default_schema):
        yield DerivedEdge(column, target, is_column=True, is_indirect=True, subtype="FILTER")


def _tables(scope: Scope, default_schema: str) -> Iterator[str]:
    for each in scope.traverse():
        for source in each.sources.values():
            if isinstance(source, exp.Table):
                yield _name(source, default_schema)


#: The columns looked at already: a query's name may be used any number of times, also by itself.
_Seen = set[tuple[int, str, str]]


def _origins(
    scope: Scope, expression: exp.Expression, default_schema: str, seen: _Seen | None = None
) -> Iterator[str]:
    """The columns of stored tables an expression is made of, through subqueries and unions."""
    seen = set() if seen is None else seen
    for column in expression.find_all(exp.Column):
        if (mark := (id(scope), column.table, column.name)) in seen:
            continue
        seen.add(mark)
        source = _source_of(scope, column)
        if isinstance(source, exp.Table):
            yield f"{_name(source, default_schema)}.{column.name}".lower()
        elif isinstance(source, Scope):
            yield from _origins_in(source, column.name, default_schema, seen)


def _source_of(scope: Scope, column: exp.Column) -> exp.Expression | Scope | None:
    """What a column's table stands for: in the innermost query around it that knows the name."""
    inner = {id(each.expression): each for sub in scope.subquery_scopes for each in sub.traverse()}
    node: Any = column if inner else None
    while node is not None and node is not scope.expression:
        query = inner.get(id(node))
        if query is not None and column.table in query.sources:
            return query.sources[column.table]
        node = node.parent
    return scope.sources.get(column.table)


def _origins_in(scope: Scope, name: str, default_schema: str, seen: _Seen) -> Iterator[str]:
    names = [output.alias_or_name for output in _outputs(scope)]
    for branch in _branches(scope):
        for made, output in zip(names, _outputs(branch), strict=False):
            if made == name:
                yield from _origins(branch, output, default_schema, seen)


def _outputs(scope: Scope) -> list[exp.Expression]:
    return list(scope.expression.selects)  # type: ignore[attr-defined] # of a query, which it is


def _branches(scope: Scope) -> Iterator[Scope]:
    """The selects of a union; a plain select is its own."""
    if not isinstance(scope.expression, exp.SetOperation):
        yield scope
        return
    for branch in scope.set_operation_scopes:
        yield from _branches(branch)


def _filters(scope: Scope, default_schema: str) -> Iterator[str]:
    for each in scope.traverse():
        clauses = [each.expression.args.get("where"), *each.expression.args.get("joins", [])]
        for clause in filter(None, clauses):
            condition = clause.args.get("on") if isinstance(clause, exp.Join) else clause
            if condition is not None:
                yield from _origins(each, condition, default_schema)


def _subtype(output: exp.Expression) -> str:
    made = output.unalias()
    if isinstance(made, exp.Column):
        return "IDENTITY"
    return "AGGREGATION" if made.find(exp.AggFunc) else "TRANSFORMATION"


def _name(table: exp.Table, default_schema: str) -> str:
    parts = [part.name for part in table.parts]
    return ".".join([default_schema, *parts] if len(parts) == 1 and default_schema else parts).lower()
