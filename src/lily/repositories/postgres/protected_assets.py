"""What writes must not take from protected assets: read before a write by somebody who may not."""

from __future__ import annotations

from collections.abc import Sequence

from lily.domain.protected_assets import ProtectedAsset, Whereabouts
from lily.repositories.postgres.pool import Database, Row
from lily.repositories.postgres.queries import load

_QUERIES = load("protection.sql")

#: From, to, and the type of relationship.
EdgeKey = tuple[str, str, str]


class PostgresProtectedAssets:
    """They live in the database of the tenant's cell; each answer is one statement."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(
        self, tenant_id: str, asset_ids: Sequence[str], tags: Sequence[str]
    ) -> dict[str, ProtectedAsset]:
        """Those of the assets that Lily has heard of, with these tags as far as they have them."""
        values = {"tenant_id": tenant_id, "asset_ids": list(asset_ids), "tags": list(tags)}
        rows = await self._database.fetch(_QUERIES["protected_assets"], values)
        return {row[0]: _asset(row) for row in rows}

    async def carrying(
        self, tenant_id: str, edges: Sequence[EdgeKey], tags: Sequence[str]
    ) -> dict[EdgeKey, set[str]]:
        """Those of the edges over which some of the tags come, and which."""
        values = {
            "tenant_id": tenant_id,
            "from_ids": [edge[0] for edge in edges],
            "to_ids": [edge[1] for edge in edges],
            "types": [edge[2] for edge in edges],
            "tags": list(tags),
        }
        found: dict[EdgeKey, set[str]] = {}
        for *key, tag in await self._database.fetch(_QUERIES["carrying_edges"], values):
            found.setdefault((key[0], key[1], key[2]), set()).add(tag)
        return found


def _asset(row: Row) -> ProtectedAsset:
    asset_id, asset_type, data_source, external_id, connector_id, data_type, is_deleted, tags, assertions = (
        row
    )
    return ProtectedAsset(
        asset_id,
        Whereabouts(asset_type, data_source, external_id, connector_id, data_type),
        is_deleted,
        frozenset(tags),
        frozenset((tag, source) for tag, source in assertions),
    )
