"""Trino's OPA plugin as far as it speaks to us: it sends what the plugin sends, and refuses what it refuses.

The plugin treats every status but 200, every answer it cannot read, and a mask of the same column twice as an
error at which the query fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

Row = dict[str, Any]


class QueryRefused(Exception):
    """Access denied, or an answer the plugin cannot go by."""


@dataclass(frozen=True)
class Trino:
    """A coordinator whose `access-control.properties` names Lily."""

    client: httpx.Client
    token: str
    options: str = ""

    def allow(
        self, user: str, operation: str, resource: Row | None = None, groups: Sequence[str] = ()
    ) -> bool:
        action = {"operation": operation} | ({"resource": resource} if resource is not None else {})
        # A missing result counts as a denial.
        result = self._ask("allow", user, groups, action).get("result", False)
        if not isinstance(result, bool):
            raise QueryRefused(f"no decision: {result!r}")
        return result

    def filter(
        self, user: str, operation: str, resources: list[Row], groups: Sequence[str] = ()
    ) -> list[Row]:
        found = self._filtered(user, operation, resources, groups)
        return [resources[index] for index in found]

    def filter_columns(self, user: str, table: Row, groups: Sequence[str] = ()) -> list[str]:
        found = self._filtered(user, "FilterColumns", [{"table": table}], groups)
        return [table["columns"][index] for index in found]

    def row_filters(self, user: str, table: Row, groups: Sequence[str] = ()) -> list[str]:
        action = {"operation": "GetRowFilters", "resource": {"table": table}}
        answer = self._ask("rowFilters", user, groups, action)
        return [_expression(each) for each in answer["result"]]

    def column_mask(self, user: str, column: Row, groups: Sequence[str] = ()) -> str | None:
        action = {"operation": "GetColumnMask", "resource": {"column": column}}
        answer = self._ask("columnMask", user, groups, action)
        return _expression(answer["result"]) if answer.get("result") is not None else None

    def column_masks(self, user: str, columns: list[Row], groups: Sequence[str] = ()) -> dict[str, str]:
        action = {"operation": "GetColumnMask", "filterResources": [{"column": each} for each in columns]}
        answer = self._ask("batchColumnMasks", user, groups, action)
        if answer.get("result") is None:
            raise QueryRefused("the result must not be null")
        masks: dict[str, str] = {}
        for item in answer["result"]:
            name = columns[item["index"]]["columnName"]
            if name in masks:
                raise QueryRefused(f"more than one mask for the column {name}")
            masks[name] = _expression(item["viewExpression"])
        return masks

    def select(self, user: str, table: Row, groups: Sequence[str] = ()) -> dict[str, str]:
        """What a SELECT of these columns asks, in the plugin's order; the masks it is rewritten with."""
        for operation, resource in (
            ("ExecuteQuery", None),
            ("AccessCatalog", {"catalog": {"name": table["catalogName"]}}),
            ("SelectFromColumns", {"table": table}),
        ):
            if not self.allow(user, operation, resource, groups):
                raise QueryRefused(f"access denied: {operation}")
        self.row_filters(user, {name: value for name, value in table.items() if name != "columns"}, groups)
        columns = [column_of(table, name) for name in table["columns"]]
        return self.column_masks(user, columns, groups)

    def _filtered(self, user: str, operation: str, resources: list[Row], groups: Sequence[str]) -> list[int]:
        action = {"operation": operation, "filterResources": resources}
        found = self._ask("batch", user, groups, action)["result"]
        if not all(isinstance(index, int) for index in found):
            raise QueryRefused(f"no indices: {found!r}")
        return list(found)

    def _ask(self, path: str, user: str, groups: Sequence[str], action: Row) -> Row:
        context = {
            "identity": {"user": user, "groups": list(groups)},
            "queryId": "20261116_010203_00001_abcde",
            "softwareStack": {"trinoVersion": "476"},
        }
        answer = self.client.post(
            f"/v1/data/trino/{path}{self.options}",
            json={"input": {"context": context, "action": action}},
            headers={"authorization": f"Bearer {self.token}"} if self.token else {},
        )
        if answer.status_code != 200:
            raise QueryRefused(f"{answer.status_code}: {answer.text}")
        document = answer.json()
        if not isinstance(document, dict) or not set(document) <= {"result", "decision_id"}:
            raise QueryRefused(f"unreadable: {document!r}")
        return document


def table_of(catalog: str, schema: str, table: str, *columns: str) -> Row:
    return {
        "catalogName": catalog,
        "schemaName": schema,
        "tableName": table,
        **({"columns": list(columns)} if columns else {}),
    }


def column_of(table: Row, name: str, data_type: str = "varchar") -> Row:
    place = {key: table[key] for key in ("catalogName", "schemaName", "tableName")}
    return {**place, "columnName": name, "columnType": data_type}


def _expression(document: Any) -> str:
    if not isinstance(document, dict) or not isinstance(document.get("expression"), str):
        raise QueryRefused(f"no view expression: {document!r}")
    return str(document["expression"])
