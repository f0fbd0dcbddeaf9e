"""Who may end protection: only who administers its rules takes their tags away, or moves what has them.

Whoever may write an asset could else undo what is for owners and stewards to decide (docs/protection.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lily.access.calls import Call
from lily.access.decisions import ASSET, Action, Resource
from lily.domain.errors import Forbidden
from lily.domain.protected_assets import TELLING, ProtectedAsset
from lily.domain.protection import Column, Rule, protections_of
from lily.domain.tags import EVERY_TAG
from lily.repositories.postgres.protected_assets import EdgeKey, PostgresProtectedAssets
from lily.repositories.postgres.protected_columns import PostgresProtectedColumns
from lily.repositories.postgres.protection_rules import PostgresProtectionRules

PROTECTION_RULE = "protection_rule"
_RULES_TAG = "it takes away a tag that protection rules are about"
_WHO = "who administers protection rules may (owners and stewards)"
Fields = Mapping[str, Any]


class ProtectionGuard:
    """Rules are in the shared cell's database, assets and columns in that of the tenant's cell."""

    def __init__(
        self,
        rules: PostgresProtectionRules,
        assets: PostgresProtectedAssets,
        columns: PostgresProtectedColumns,
    ) -> None:
        self._rules = rules
        self._assets = assets
        self._columns = columns

    async def refusals(self, call: Call, batch: Sequence[tuple[str, Fields]]) -> dict[int, Forbidden]:
        """The writes (asset id, fields) that would end protection, by position, unless the caller may.

        A connector's own run tells what is there: it may, but not in the name of another connector.
        """
        if all(TELLING.isdisjoint(fields) for _, fields in batch) or await self._may(call):
            return {}
        telling = {at: each for at, each in enumerate(batch) if not TELLING.isdisjoint(each[1])}
        own = call.principal.connector_id
        rules = () if own else await self._rules.load(call.tenant_id)
        known = {} if own else await self._known(call, rules, telling.values())
        refused: dict[int, Forbidden] = {}
        moved: dict[int, ProtectedAsset] = {}
        for at, (asset_id, fields) in telling.items():
            asset = known.get(asset_id) or ProtectedAsset(asset_id)
            after = asset.place.after(fields)
            if after.connector_id not in {asset.place.connector_id, own, ""}:
                refused[at] = _denied(call, asset_id, "only a connector's own runs say metadata.connector_id")
            elif lost := asset.lost(fields):
                refused[at] = _denied(call, asset_id, _RULES_TAG, lost)
            elif after != asset.place and not own:
                moved[at] = asset
        return refused | await self._moves(call, rules, moved)

    async def require(self, call: Call, asset_id: str, fields: Fields) -> None:
        """Return when this write ends no protection, or the caller may."""
        for refusal in (await self.refusals(call, [(asset_id, fields)])).values():
            raise refusal

    async def require_tags(self, call: Call, asset_id: str, tags: Collection[str]) -> None:
        """Return when no rule is about these tags, which are to count less, or the caller may."""
        if await self._may(call):
            return
        named = {rule.tag for rule in await self._rules.load(call.tenant_id)}
        if lost := {tag for tag in named for said in tags if _means(said, tag)}:
            raise _denied(call, asset_id, _RULES_TAG, lost)

    async def require_edges(self, call: Call, edges: Mapping[EdgeKey, Collection[str]]) -> None:
        """Return when no rule's tag rests on these edges, of which each is to carry these tags no longer."""
        if not edges or await self._may(call):
            return
        rules = await self._rules.load(call.tenant_id)
        tags = sorted({rule.tag for rule in rules})
        carried = await self._assets.carrying(call.tenant_id, list(edges), tags)
        for key, on_it in carried.items():
            if lost := {tag for tag in on_it for said in edges[key] if _means(said, tag)}:
                raise _denied(call, key[1], _RULES_TAG, lost)

    async def require_contained(self, call: Call, asset_ids: Sequence[str]) -> None:
        """Return when no column of these is protected for what it is contained in, or the caller may."""
        if not asset_ids or await self._may(call):
            return
        rules = await self._rules.load(call.tenant_id)
        for column in await self._columns.below(call.tenant_id, asset_ids) if rules else ():
            alone = replace(column, containers=frozenset(), tags_above=frozenset())
            if protections_of(column, rules) != protections_of(alone, rules):
                raise _denied(call, column.asset_id, "it is protected for what it is contained in")

    async def _known(
        self, call: Call, rules: Sequence[Rule], writes: Iterable[tuple[str, Fields]]
    ) -> dict[str, ProtectedAsset]:
        tags = sorted({rule.tag for rule in rules})
        return await self._assets.find(call.tenant_id, [asset_id for asset_id, _ in writes], tags)

    async def _may(self, call: Call) -> bool:
        return (await call.decide(Action.ADMINISTER, Resource(call.tenant_id, PROTECTION_RULE))).allowed

    async def _moves(
        self, call: Call, rules: Sequence[Rule], moved: Mapping[int, ProtectedAsset]
    ) -> dict[int, Forbidden]:
        """What a connector found stays where it found it; so does a column that a rule protects."""
        told = [asset.asset_id for asset in moved.values() if not asset.place.connector_id]
        columns = await self._columns.below(call.tenant_id, told) if rules and told else []
        bound = _protected(columns, rules) | {
            asset.asset_id for asset in moved.values() if asset.place.connector_id
        }
        reason = "its type, source, external id, data type and connector say where it is protected"
        return {
            at: _denied(call, asset.asset_id, reason)
            for at, asset in moved.items()
            if asset.asset_id in bound
        }


def _protected(columns: Iterable[Column], rules: Sequence[Rule]) -> set[str]:
    return {column.asset_id for column in columns if protections_of(column, rules)}


def _means(said: str, tag: str) -> bool:
    """`*` is every tag, `@owner:*` that of every owner."""
    return tag.startswith(said.removesuffix(EVERY_TAG)) if said.endswith(EVERY_TAG) else tag == said


def _denied(call: Call, asset_id: str, reason: str, tags: Iterable[str] = ()) -> Forbidden:
    """Which tags it is about is for the audit: the caller need not be one who may read the asset."""
    told = f"{reason}: {', '.join(sorted(tags))}" if tags else reason
    call.notebook.write("administer", (ASSET, asset_id), False, told)
    return Forbidden(f"this would end what protects {asset_id!r}: {reason}; {_WHO}")
