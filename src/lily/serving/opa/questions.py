"""What Trino's OPA plugin sends, as far as an answer depends on it; anything else it sends is let pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from lily.serving.opa.books import TableName

_MOST_RESOURCES = 10_000


class _Sent(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Identity(_Sent):
    user: str = Field(min_length=1, max_length=1024)
    groups: list[str] = Field(default_factory=list, max_length=10_000)


class Context(_Sent):
    identity: Identity


class Table(_Sent):
    """Names are spelled as Trino spells them."""

    catalogName: str
    schemaName: str
    tableName: str
    columns: list[str] = Field(default_factory=list, max_length=_MOST_RESOURCES)

    @property
    def name(self) -> TableName:
        return TableName(self.catalogName, self.schemaName, self.tableName)


class Column(_Sent):
    catalogName: str
    schemaName: str
    tableName: str
    columnName: str
    columnType: str = ""

    @property
    def table(self) -> TableName:
        return TableName(self.catalogName, self.schemaName, self.tableName)


class Schema(_Sent):
    catalogName: str
    schemaName: str


class Function(_Sent):
    catalogName: str = ""
    schemaName: str = ""
    functionName: str = ""


class User(_Sent):
    """Whose queries are meant."""

    user: str = ""


class Resource(_Sent):
    """One of these, by the operation; others (a role, a catalog's session property) do not matter."""

    table: Table | None = None
    column: Column | None = None
    schema_: Schema | None = Field(default=None, alias="schema")
    function: Function | None = None
    user: User | None = None


class Action(_Sent):
    operation: str
    resource: Resource = Resource()
    filterResources: list[Resource] = Field(default_factory=list, max_length=_MOST_RESOURCES)


class Input(_Sent):
    context: Context
    action: Action


class Question(_Sent):
    """The body of every call."""

    input: Input

    @property
    def groups(self) -> frozenset[str]:
        return frozenset(self.input.context.identity.groups)

    @property
    def user(self) -> str:
        return self.input.context.identity.user

    @property
    def action(self) -> Action:
        return self.input.action

    @property
    def resources(self) -> Sequence[Resource]:
        return self.input.action.filterResources


def view_expression(expression: str) -> dict[str, Any]:
    return {"expression": expression}
