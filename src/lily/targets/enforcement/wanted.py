"""What is to be protected in each database: kept up to date column by column as tags and rules change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lily.domain.external_ids import names_in, qualified
from lily.domain.protection import Column, Protection
from lily.repositories.postgres.enforcement import KnownPlaces
from lily.repositories.postgres.protected_columns import PostgresProtectedColumns, judged
from lily.repositories.postgres.protection_rules import PostgresProtectionRules
from lily.targets.enforcement.targets import Access


@dataclass(slots=True)
class Wanted:
    """Of one database: where each column's asset says it is and what protects it, and what is known of it: by
    external id the relations that are classified and the columns that are assets."""

    columns: dict[str, tuple[str, tuple[Protection, ...]]] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)

    def protections(self) -> dict[str, tuple[Protection, ...]]:
        """By external id; of several assets with the same one, what protects any of them."""
        merged: dict[str, set[Protection]] = {}
        for place, protections in self.columns.values():
            if protections:
                merged.setdefault(place, set()).update(protections)
        return {place: tuple(sorted(each, key=lambda one: one.strictness)) for place, each in merged.items()}

    def put(self, column: Column, protections: tuple[Protection, ...]) -> None:
        self.columns[column.asset_id] = column.external_id, protections


class Wishes:
    """Reads the rules and the columns they are about, in the database each tenant lives in."""

    def __init__(
        self, rules: PostgresProtectionRules, columns: PostgresProtectedColumns, known: KnownPlaces
    ) -> None:
        self._rules = rules
        self._columns = columns
        self._known = known

    async def read(self, access: Access) -> Wanted:
        """Everything that is to be protected in a database, as it is now."""
        rules = await self._rules.load(access.tenant_id)
        wanted = Wanted()
        for column, protections in await self._columns.protected(access.tenant_id, rules):
            if is_of(column, access):
                wanted.put(column, protections)
        if access.options.deny_unknown:
            wanted.known = await self._known_of(access)
        return wanted

    async def refresh(self, access: Access, wanted: Wanted, assets: Sequence[str]) -> set[str]:
        """Look again at what these assets are or contain; returns the relations for which it matters."""
        rules = await self._rules.load(access.tenant_id)
        found = judged(await self._columns.below(access.tenant_id, assets), rules)
        affected = renew(access, wanted, assets, found)
        if access.options.deny_unknown:
            known = await self._known_of(access)
            for place in known ^ wanted.known:
                affected |= {place} | relations_of(place)
            wanted.known = known
        return affected

    async def _known_of(self, access: Access) -> set[str]:
        """A relation is known when somebody gave it, or one of its columns, a tag."""
        known: set[str] = set()
        for place in await self._known.of(access.tenant_id, access.source, access.connector_id):
            if place.is_column:
                known |= {place.external_id}
            if place.is_classified:
                known |= relations_of(place.external_id) if place.is_column else {place.external_id}
        return known


def is_of(column: Column, access: Access) -> bool:
    """A column is of the database it was scraped from; without that, of the source with its name."""
    if column.connector_id:
        return column.connector_id == access.connector_id
    return column.data_source == access.source


def relations_of(external_id: str) -> set[str]:
    """The relations a column with this external id can be of: a field of a column is further within."""
    names = names_in(external_id)
    return {qualified(*names[:end]) for end in range(3, len(names))}


def renew(
    access: Access,
    wanted: Wanted,
    assets: Sequence[str],
    found: Sequence[tuple[Column, tuple[Protection, ...]]],
) -> set[str]:
    """Take over what was found of these assets; those not found are gone. Returns the affected relations."""
    affected: set[str] = set()
    of_here = [(column, protections) for column, protections in found if is_of(column, access)]
    for asset_id in set(assets) - {column.asset_id for column, _ in of_here}:
        place, protections = wanted.columns.pop(asset_id, ("", ()))
        affected |= relations_of(place) if protections else set()
    for column, protections in of_here:
        before = wanted.columns.get(column.asset_id, (column.external_id, ()))
        wanted.put(column, protections)
        if before != (column.external_id, protections):
            affected |= relations_of(before[0]) | relations_of(column.external_id)
    return affected
