"""The columns of a tenant with all that protection depends on: what `lily.domain.protection` judges."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from lily.domain.protection import Column, Protection, Rule, protections_of
from lily.repositories.postgres.pool import Database, Row
from lily.repositories.postgres.queries import load

_QUERIES = load("protection.sql")
_PAGE = 20_000

#: A column and all that protects it, the strictest first.
Protected = tuple[Column, tuple[Protection, ...]]


class PostgresProtectedColumns:
    """They live in the database of the tenant's cell; each answer is one statement, however many columns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def protected(self, tenant_id: str, rules: Sequence[Rule]) -> list[Protected]:
        """Every column that at least one of the rules protects."""
        values = {
            "tenant_id": tenant_id,
            "tags": sorted({rule.tag for rule in rules}),
            "including_contained": sorted({rule.tag for rule in rules if rule.includes_contained}),
        }
        rows = await self._database.fetch(_QUERIES["columns_with_tags"], values)
        return [found for found in judged(map(column_of, rows), rules) if found[1]]

    async def below(self, tenant_id: str, asset_ids: Iterable[str]) -> list[Column]:
        """The columns among these assets and in them, protected or not; what is gone is left out."""
        values = {"tenant_id": tenant_id, "asset_ids": sorted(asset_ids)}
        return [column_of(row) for row in await self._database.fetch(_QUERIES["columns_in"], values)]

    async def named(self, tenant_id: str) -> AsyncIterator[Column]:
        """Every column there is, by its names alone."""
        after = ""
        while True:
            values = {"tenant_id": tenant_id, "after": after, "most": _PAGE}
            rows = await self._database.fetch(_QUERIES["next_columns"], values)
            for row in rows:
                yield Column(*row)
            if len(rows) < _PAGE:
                return
            after = rows[-1][0]


def judged(columns: Iterable[Column], rules: Sequence[Rule]) -> list[Protected]:
    """Each column with all that protects it, maybe nothing."""
    return [(column, protections_of(column, rules)) for column in columns]


def column_of(row: Row) -> Column:
    asset_id, data_source, external_id, name, data_type, connector_id, tags, containers, tags_above = row
    return Column(
        asset_id=asset_id,
        data_source=data_source,
        external_id=external_id,
        name=name,
        data_type=data_type,
        tags=frozenset(tags),
        containers=frozenset(containers),
        tags_above=frozenset(tags_above),
        connector_id=connector_id,
    )
