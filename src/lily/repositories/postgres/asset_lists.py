"""Lists of assets, each under a condition that says which of them the caller may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, LiteralString

from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load

_QUERIES = load("listing.sql")


def _allowed(prefix: LiteralString) -> LiteralString:
    return _QUERIES["allowed"].format(p=prefix)


_LIST = _QUERIES["list_assets"].format(allowed=_allowed(""))
_COMPARE = _QUERIES["compare_predicates"].format(before=_allowed("before_"), after=_allowed("after_"))


@dataclass(frozen=True, slots=True)
class Filters:
    """What a caller wants to see; None does not filter."""

    asset_type: str | None = None
    data_source: str | None = None
    tag: str | None = None
    asset_owner: str | None = None
    deleted: bool | None = False


@dataclass(frozen=True, slots=True)
class ListedAsset:
    asset_id: str
    document: str
    is_tagged: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """How many assets come and go with a change of policies, and some of them."""

    gained: int
    lost: int
    gained_examples: list[str]
    lost_examples: list[str]


class AssetLists:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, tenant_id: str, filters: Filters, condition: Mapping[str, Any], after: str, limit: int
    ) -> list[ListedAsset]:
        """At most `limit` assets after that id; `condition` are the values of a predicate."""
        values = {**condition, **asdict(filters), "tenant_id": tenant_id, "after": after, "limit": limit}
        return [ListedAsset(*row) for row in await self._database.fetch(_LIST, values)]

    async def compare(
        self, tenant_id: str, before: Mapping[str, Any], after: Mapping[str, Any], examples: int
    ) -> Difference:
        """What another predicate would change; the names of their values start with before_ and after_."""
        values = {**before, **after, "tenant_id": tenant_id, "examples": examples}
        [(gained, lost, came, went)] = await self._database.fetch(_COMPARE, values)
        return Difference(gained, lost, came or [], went or [])
