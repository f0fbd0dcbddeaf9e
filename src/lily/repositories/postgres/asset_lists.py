"""Lists of assets, each under a condition that says which of them the caller may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, LiteralString

from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load

_QUERIES = load("listing.sql")


def _allowed(contained: LiteralString, prefix: LiteralString = "") -> LiteralString:
    return _QUERIES["allowed"].format(
        p=prefix,
        in_allowed=contained.format(containers=f"{prefix}allow_containers"),
        in_forbidden=contained.format(containers=f"{prefix}forbid_containers"),
        in_columns=contained.format(containers=f"{prefix}columns"),
    )


_PARTS = {"is_tagged": _QUERIES["is_tagged"].format(), "wanted": _QUERIES["wanted"].format()}
_ALONE, _BY_BLOCK = _QUERIES["contained"], _QUERIES["contained_by_block"]
_LIST = _QUERIES["list_assets"].format(**_PARTS, allowed=_allowed(_ALONE))
_LIST_BLOCK = _QUERIES["list_block"].format(**_PARTS, allowed=_allowed(_BY_BLOCK))
_COMPARE = _QUERIES["compare_predicates"].format(
    before=_allowed(_ALONE, "before_"), after=_allowed(_ALONE, "after_")
)
_CONTAINERS = ("allow_containers", "forbid_containers", "columns")
_LARGEST_BLOCK = 10_000


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
        if any(condition[name] for name in _CONTAINERS):
            return await self._page_by_blocks(values, limit)
        return [ListedAsset(*row) for row in await self._database.fetch(_LIST, values)]

    async def _page_by_blocks(self, values: dict[str, Any], limit: int) -> list[ListedAsset]:
        """The same by blocks of candidates, which grow while few of them may be read."""
        page: list[ListedAsset] = []
        size = limit
        while len(page) < limit:
            rows = await self._database.fetch(_LIST_BLOCK, {**values, "limit": size})
            page += [ListedAsset(*row[:3]) for row in rows if row[1] is not None]
            if not rows or rows[-1][3] < size:
                break
            values["after"], size = rows[-1][0], min(2 * size, _LARGEST_BLOCK)
        return page[:limit]

    async def compare(
        self, tenant_id: str, before: Mapping[str, Any], after: Mapping[str, Any], examples: int
    ) -> Difference:
        """What another predicate would change; the names of their values start with before_ and after_."""
        values = {**before, **after, "tenant_id": tenant_id, "examples": examples}
        [(gained, lost, came, went)] = await self._database.fetch(_COMPARE, values)
        return Difference(gained, lost, came or [], went or [])
