"""Reads the tags of assets: which are in force, who asserts them, from where they came and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from lily.repositories.postgres.pool import Database
from lily.repositories.postgres.queries import load

_QUERIES = load("lineage.sql")


@dataclass(frozen=True, slots=True)
class EffectiveTag:
    tag: str
    is_asserted: bool
    via_from: str | None
    via_type: str | None
    since: datetime
    cause: UUID
    is_partial: bool


@dataclass(frozen=True, slots=True)
class Assertion:
    tag: str
    source: str
    at: datetime
    event_id: UUID
    actor: str | None
    body: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Support:
    """That a fact follows from another over one edge."""

    asset_id: str
    is_partial: bool
    from_id: str
    from_is_partial: bool
    relationship_type: str
    from_is_asserted: bool


@dataclass(frozen=True, slots=True)
class Reach:
    """That a tag on a fact goes on to another one over an edge, and what of the tag is in force there now."""

    asset_id: str
    is_partial: bool
    to_id: str
    to_is_partial: bool
    has_whole: bool
    has_partial: bool
    is_asserted: bool

    @property
    def is_there(self) -> bool:
        """Whether the fact it leads to is in force already."""
        return self.has_partial if self.to_is_partial else self.has_whole


@dataclass(frozen=True, slots=True)
class Word:
    """What a source last said about a tag of an asset; `is_ahead` when for a time that has not come."""

    source: str
    holds: bool
    is_ahead: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """How a tag stands on one asset."""

    has_whole: bool
    has_partial: bool
    is_asserted: bool
    is_heard: bool
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class TagChange:
    seq: int
    at: datetime
    cause: UUID
    was_added: bool
    reason: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Definition:
    lineage: bool
    containment: bool
    indirect: bool
    stopped_by_masking: bool
    body: dict[str, Any] | None
    actor: str | None
    defined_at: datetime | None


class PostgresTags:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def effective(self, tenant_id: str, asset_id: str) -> list[EffectiveTag]:
        rows = await self._fetch("find_tags", tenant_id, asset_id=asset_id)
        return [EffectiveTag(*row) for row in rows]

    async def assertions(self, tenant_id: str, asset_id: str) -> list[Assertion]:
        rows = await self._fetch("find_assertions", tenant_id, asset_id=asset_id)
        return [Assertion(*row) for row in rows]

    async def opt_outs(self, tenant_id: str, asset_id: str) -> list[str]:
        return [row[0] for row in await self._fetch("find_opt_outs", tenant_id, asset_id=asset_id)]

    async def parents(self, tenant_id: str, tag: str, facts: Sequence[tuple[str, bool]]) -> list[Support]:
        """What these facts (asset, is_partial) of a tag follow from, one hop back."""
        assets, partial = [asset for asset, _ in facts], [flag for _, flag in facts]
        rows = await self._fetch("parents_of", tenant_id, tag=tag, assets=assets, partial=partial)
        return [Support(*row) for row in rows]

    async def children(self, tenant_id: str, tag: str, facts: Sequence[tuple[str, bool]]) -> list[Reach]:
        """Where a tag goes from these facts (asset, is_partial), one hop on."""
        assets, partial = [asset for asset, _ in facts], [flag for _, flag in facts]
        rows = await self._fetch("children_of", tenant_id, tag=tag, assets=assets, partial=partial)
        return [Reach(*row) for row in rows]

    async def standing(self, tenant_id: str, asset_id: str, tag: str) -> Standing:
        [row] = await self._fetch("standing_of", tenant_id, asset_id=asset_id, tag=tag)
        whole, partial, asserted, heard, words = row
        return Standing(whole, partial, asserted, heard, tuple(Word(*word) for word in words))

    async def holders(self, tenant_id: str, tag: str, assets: Sequence[str]) -> set[str]:
        """Those of the assets on which the tag stands for all of them."""
        return {row[0] for row in await self._fetch("list_holders", tenant_id, tag=tag, assets=list(assets))}

    async def history(self, tenant_id: str, asset_id: str, tag: str, most: int) -> list[TagChange]:
        rows = await self._fetch("list_tag_changes", tenant_id, asset_id=asset_id, tag=tag, most=most)
        return [TagChange(*row) for row in rows]

    async def definition(self, tenant_id: str, tag: str) -> Definition:
        return Definition(*(await self._fetch("find_definition", tenant_id, tag=tag))[0])

    async def definitions(self, tenant_id: str) -> list[str]:
        return [row[0] for row in await self._fetch("list_definitions", tenant_id)]

    async def _fetch(self, name: str, tenant_id: str, **asked: Any) -> list[tuple[Any, ...]]:
        return await self._database.fetch(_QUERIES[name], {"tenant_id": tenant_id} | asked)
