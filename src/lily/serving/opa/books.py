"""What a tenant's protection is, in memory: its columns by the names engines use, and the rules in force."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from lily.domain.external_ids import names_in, qualified
from lily.domain.protection import Column, Protection, Rule, applies, protections_of

#: For so many data types a column's protections are remembered; it has one, unless somebody makes them up.
_MOST_TYPES = 16
#: Answers remembered for one class of askers, and how many classes: every query asks the same again.
_MOST_ANSWERS = 20_000
_MOST_ASKERS = 200
#: Of whole answers so many bytes, each with about this much for its question.
_MOST_ANSWER_BYTES = 16 * 1024 * 1024
_QUESTION_BYTES = 500


@dataclass(frozen=True, slots=True)
class TableName:
    """A table as an engine names it; engines that ignore case do not tell two spellings apart."""

    catalog: str
    schema: str
    table: str

    @property
    def key(self) -> str:
        return qualified(self.catalog, self.schema, self.table).lower()


class Book:
    """The columns of one tenant; changed in place by whoever keeps it current.

    A column is found under the names an engine's catalog may have: that of its database, or of its source.
    Where that is ambiguous, all that is found counts, and the strictest wins.
    """

    def __init__(self, salt: str) -> None:
        self.salt = salt
        self._rules: tuple[Rule, ...] = ()
        self._names: dict[str, tuple[tuple[str, ...], str]] = {}
        self._tables: dict[str, dict[str, set[str]]] = defaultdict(dict)
        self._protected: dict[str, Column] = {}
        self._judged: dict[str, dict[str, tuple[Protection, ...]]] = {}
        self._remembered: dict[Hashable, dict[Hashable, str | None]] = {}
        self._answers: dict[Hashable, bytes] = {}
        self._answer_bytes = 0

    def set_rules(self, rules: tuple[Rule, ...], protected: Iterable[Column]) -> None:
        """These rules from now on, with every column that one of them is about."""
        self._rules = rules
        self._protected = {column.asset_id: column for column in protected}
        self._judged.clear()
        self._forget_answers()

    def name(self, column: Column) -> None:
        """This column exists under these names, and under no others any more."""
        keys, name = table_keys(column), sys.intern(column.name.lower())
        if self._names.get(column.asset_id) == (keys, name):
            return
        self._forget_answers()
        self._forget_names(column.asset_id)
        self._names[column.asset_id] = (keys, name)
        for key in keys:
            self._tables[key].setdefault(name, set()).add(column.asset_id)

    def put(self, column: Column) -> None:
        """A column as it is now."""
        self.name(column)
        self._protected.pop(column.asset_id, None)
        if any(applies(rule, column) for rule in self._rules):
            self._protected[column.asset_id] = column
        self._judged.pop(column.asset_id, None)
        self._forget_answers()

    def remove(self, asset_id: str) -> None:
        """What is no column any more."""
        self._forget_names(asset_id)
        self._protected.pop(asset_id, None)
        self._judged.pop(asset_id, None)
        self._forget_answers()

    def knows(self, table: TableName, column: str | None = None) -> bool:
        """Whether the table, and the column of it, are known to Lily."""
        columns = self._tables.get(table.key, {})
        return bool(columns) if column is None else column.lower() in columns

    def columns_of(self, table: TableName) -> Iterable[str]:
        return self._tables.get(table.key, {})

    def protections(self, table: TableName, column: str, data_type: str = "") -> tuple[Protection, ...]:
        """All that protects a column of this type from anybody, the strictest first."""
        assets = self._tables.get(table.key, {}).get(column.lower(), ())
        found = [self._judge(asset_id, data_type) for asset_id in assets if asset_id in self._protected]
        if len(found) < 2:
            return found[0] if found else ()
        return tuple(sorted((each for one in found for each in one), key=lambda each: each.strictness))

    def knows_in(self, prefix: str) -> bool:
        """Whether any table is known whose name begins like this."""
        prefix = prefix.lower() + "."
        return any(key.startswith(prefix) for key in self._tables)

    def protects_in(self, prefix: str) -> bool:
        """Whether anything is protected whose table's name begins like this: a catalog, a schema."""
        prefix = prefix.lower() + "."
        return any(key.startswith(prefix) for asset_id in self._protected for key in self._names[asset_id][0])

    def remembered(self, asker: Hashable) -> dict[Hashable, str | None]:
        """What somebody was answered about columns, for as long as the book stays as it is."""
        found = self._remembered.get(asker)
        if found is None or len(found) >= _MOST_ANSWERS:
            if len(self._remembered) >= _MOST_ASKERS:
                self._remembered.clear()
            found = self._remembered[asker] = {}
        return found

    def answer(self, question: Hashable) -> bytes | None:
        """What was answered to this question, asker included, if the book has not changed since."""
        return self._answers.get(question)

    def remember(self, question: Hashable, answer: bytes) -> None:
        """The same will be answered for as long as the book stays as it is."""
        self._answer_bytes += len(answer) + _QUESTION_BYTES
        if self._answer_bytes > _MOST_ANSWER_BYTES:
            self._answers, self._answer_bytes = {}, len(answer) + _QUESTION_BYTES
        self._answers[question] = answer

    def _forget_answers(self) -> None:
        self._remembered.clear()
        self._answers, self._answer_bytes = {}, 0

    def _judge(self, asset_id: str, data_type: str) -> tuple[Protection, ...]:
        by_type = self._judged.setdefault(asset_id, {})
        found = by_type.get(data_type)
        if found is None:
            if len(by_type) >= _MOST_TYPES:
                by_type.clear()
            column = replace(self._protected[asset_id], data_type=data_type)
            found = by_type[data_type] = protections_of(column, self._rules)
        return found

    def _forget_names(self, asset_id: str) -> None:
        keys, name = self._names.pop(asset_id, ((), ""))
        for key in keys:
            self._tables[key][name].discard(asset_id)
            if not self._tables[key][name]:
                del self._tables[key][name]
            if not self._tables[key]:
                del self._tables[key]


def table_keys(column: Column) -> tuple[str, ...]:
    """The names by which an engine may ask for the column's table.

    `warehouse.sales.orders.email` of the source `pg` is in `warehouse.sales.orders` and `pg.sales.orders`;
    `sales.orders.email` of a source `hive`, which names no database, is in `hive.sales.orders`.
    """
    path, source = column.external_id.lower(), column.data_source.lower()
    name = column.name.lower()
    suffixes = [suffix for suffix in (f".{qualified(name)}", f".{name}") if path.endswith(suffix)]
    table = names_in(path.removesuffix(suffixes[0])) if suffixes else names_in(path)[:-1]
    places = (table, (source, *table), (source, *table[1:]))
    return tuple(sys.intern(qualified(*each)) for each in dict.fromkeys(places) if len(each) >= 3)
