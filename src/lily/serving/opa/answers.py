"""What Trino may do, and what it shows instead of a value: from a book, denied where it is silent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lily.domain.protection import Effect, Protection, protection_for
from lily.serving.opa.askers import Asker
from lily.serving.opa.books import Book, TableName
from lily.serving.opa.expressions import NOTHING, mask_expression
from lily.serving.opa.operations import (
    CALLING,
    FILTERS,
    ORDINARY,
    PASS_THROUGH,
    PRIVILEGED,
    PRIVILEGED_ROLES,
    READING,
    RENAMING,
    RUNNING,
    VIEWING,
    WATCHING,
)
from lily.serving.opa.questions import Action, Column, Resource, Table, view_expression

#: What an engine tells about itself; Lily knows no assets there.
_OWN_SCHEMA = "information_schema"
_OWN_CATALOG = "system"


@dataclass(frozen=True, slots=True)
class Answers:
    """For one asker, by one book; `unknown_is_allowed` lets tables pass that Lily has never heard of."""

    book: Book
    asker: Asker
    unknown_is_allowed: bool = False

    def allow(self, action: Action) -> bool:
        """Whether the operation may be done; one nobody knows may not."""
        operation, resource = action.operation, action.resource
        if self.asker.is_barred:
            return False
        if operation in WATCHING:
            return self._watches(resource)
        if operation in FILTERS:
            return self._shows(resource)
        if operation in READING:
            return resource.table is not None and self._reads(resource.table)
        if operation in VIEWING:
            return resource.table is not None and self._views(resource.table)
        if operation in RUNNING:
            return self._runs(resource)
        if operation in CALLING:
            return self._calls(resource)
        if operation in RENAMING:
            return self._renames(resource)
        if operation in PRIVILEGED:
            return self._is_privileged
        return operation in ORDINARY

    @property
    def _is_privileged(self) -> bool:
        return not PRIVILEGED_ROLES.isdisjoint(self.asker.roles)

    def shown(self, action: Action) -> list[int]:
        """Which of the resources of a filter are shown; of `FilterColumns`, which columns of its table."""
        resources = action.filterResources
        if self.asker.is_barred or action.operation not in FILTERS:
            return []
        if action.operation == "FilterColumns":
            table = resources[0].table if len(resources) == 1 else None
            if table is None:
                return []
            return [index for index, name in enumerate(table.columns) if self._shows_column(table.name, name)]
        judge = self._watches if action.operation in WATCHING else self._shows
        return [index for index, resource in enumerate(resources) if judge(resource)]

    def row_filters(self, table: Table) -> list[dict[str, Any]]:
        """No row of a table that is refused; no rule is about rows."""
        return [] if self._is_known(table.name) and not self.asker.is_barred else [view_expression("false")]

    def mask(self, column: Column) -> str | None:
        """The expression shown instead, None for the value itself; what is denied shows nothing here."""
        return self._masks_of([column])[0]

    def _masks_of(self, columns: Sequence[Column]) -> list[str | None]:
        asker = self.asker
        known = self.book.remembered((asker.roles, asker.groups, asker.is_barred, self.unknown_is_allowed))
        found: list[str | None] = []
        for each in columns:
            key = (each.catalogName, each.schemaName, each.tableName, each.columnName, each.columnType)
            if key not in known:
                known[key] = self._mask(each)
            found.append(known[key])
        return found

    def _mask(self, column: Column) -> str | None:
        if self.asker.is_barred or not self._is_known(column.table, column.columnName):
            return NOTHING
        met = self._met(column.table, column.columnName, column.columnType)
        if met is None:
            return None
        if met.effect is Effect.DENY:
            return NOTHING
        return mask_expression(met.mask, column.columnName, column.columnType, self.book.salt)

    def masks(self, resources: Sequence[Resource]) -> list[dict[str, Any]]:
        """One item per column that is masked, each index once; what names no column shows nothing."""
        named = [resource.column for resource in resources if resource.column is not None]
        masks = iter(self._masks_of(named))
        found = [NOTHING if resource.column is None else next(masks) for resource in resources]
        return [
            {"index": index, "viewExpression": view_expression(expression)}
            for index, expression in enumerate(found)
            if expression is not None
        ]

    def _met(self, table: TableName, column: str, data_type: str = "") -> Protection | None:
        protections = self.book.protections(table, column, data_type)
        return protection_for(protections, self.asker.roles, self.asker.groups)

    def _is_known(self, table: TableName, column: str | None = None) -> bool:
        if table.schema.lower() == _OWN_SCHEMA or table.catalog.lower() == _OWN_CATALOG:
            return True
        return self.unknown_is_allowed or self.book.knows(table, column)

    def _reads(self, table: Table) -> bool:
        return self._is_known(table.name) and all(
            self._shows_column(table.name, column) for column in table.columns
        )

    def _shows_column(self, table: TableName, column: str) -> bool:
        met = self._met(table, column)
        return self._is_known(table, column) and (met is None or met.effect is not Effect.DENY)

    def _views(self, table: Table) -> bool:
        """A view shows everybody what its owner sees: who is spared anything may not make one of it."""
        for column in table.columns:
            protections = self.book.protections(table.name, column)
            if any(each.spares(self.asker.roles, self.asker.groups) for each in protections):
                return False
        return self._reads(table)

    def _runs(self, resource: Resource) -> bool:
        """A function that passes a query through to the source goes around every mask."""
        function = resource.function
        if function is None:
            return False
        passes_through = function.functionName.lower() in PASS_THROUGH
        return not passes_through or self._may_pass(function.catalogName)

    def _calls(self, resource: Resource) -> bool:
        function = resource.function
        return function is not None and (self._is_privileged or self._may_pass(function.catalogName))

    def _may_pass(self, catalog: str) -> bool:
        """Whether nothing in the catalog's source is hidden: of one nobody knows, nobody knows that."""
        if catalog.lower() == _OWN_CATALOG:
            return True
        is_known = self.unknown_is_allowed or self.book.knows_in(catalog)
        return is_known and not self.book.protects_in(catalog)

    def _watches(self, resource: Resource) -> bool:
        """One's own queries, or anybody's for who is trusted with them."""
        owner = resource.user
        return self._is_privileged or (owner is not None and owner.user == self.asker.user)

    def _renames(self, resource: Resource) -> bool:
        """What is renamed is found under another name, and by no rule until it is read again."""
        if resource.table is not None:
            name = resource.table.name
            return not any(self.book.protections(name, column) for column in self.book.columns_of(name))
        schema = resource.schema_
        return schema is not None and not self.book.protects_in(f"{schema.catalogName}.{schema.schemaName}")

    def _shows(self, resource: Resource) -> bool:
        """Names of catalogs, schemas and tables are no secret; those of denied columns are."""
        table, column = resource.table, resource.column
        if column is not None:
            return self._shows_column(column.table, column.columnName)
        if table is not None and table.columns:
            return all(self._shows_column(table.name, name) for name in table.columns)
        return True
