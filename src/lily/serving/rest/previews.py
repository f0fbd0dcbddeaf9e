"""The route that tells what a tag, or its removal, would touch: assets, owners, policies, protection."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from pydantic import Field
from pydantic_core import to_json

from lily.access.assets import AssetGuard
from lily.access.calls import Call, Writing
from lily.access.decisions import Action, Resource
from lily.access.requests import check_id
from lily.access.routers import Route, add_routes
from lily.domain.policies import ScopeKind
from lily.domain.protection import Column, Rule, protections_of
from lily.repositories.postgres.lineage import PostgresLineage
from lily.repositories.postgres.policies import PostgresPolicies
from lily.repositories.postgres.protected_columns import PostgresProtectedColumns
from lily.repositories.postgres.protection_rules import PostgresProtectionRules
from lily.repositories.postgres.tags import PostgresTags
from lily.serving.previews import Effect, Intention, Previews
from lily.serving.rest.after import AfterEvent
from lily.serving.rest.bodies import Body, body_of, read_model
from lily.serving.rest.lineage_answers import ClassificationPreview

PREVIEW = "/lily/v1/metadata/governance/classification/preview"

Tag = Annotated[str, Field(min_length=1, max_length=256)]


class PreviewBody(Body):
    """Tags somebody thinks of asserting on an asset, or of taking off it."""

    asset_id: Annotated[str, Field(min_length=1, max_length=512)]
    tags: Annotated[list[Tag], Field(min_length=1, max_length=16)]
    remove: bool = False
    source: Literal["", "user", "source", "classifier", "*"] = ""


@dataclass(frozen=True)
class PreviewRoutes:
    """Policies and rules are in the shared cell's database, all else in that of the tenant's cell."""

    tags: PostgresTags
    nodes: PostgresLineage
    policies: PostgresPolicies
    rules: PostgresProtectionRules
    columns: PostgresProtectedColumns
    guard: AssetGuard
    after: AfterEvent

    def router(self) -> APIRouter:
        given, taken = ClassificationPreview, body_of(PreviewBody)
        return add_routes(
            APIRouter(tags=["classification"], dependencies=[Depends(self.after.visible)]),
            Route(PREVIEW, "POST", self.preview, "previewClassification", given, taken),
        )

    async def preview(self, request: Request, call: Writing) -> Response:
        """What would happen, changing nothing. Assets the caller may not read are left out: `truncated`.

        How many policies and protection rules it meets is for those who may read them, else null.
        """
        body = await read_model(request, PreviewBody)
        await self.guard.find_for(call, Action.WRITE, check_id(body.asset_id))
        effects = {
            tag: await Previews(self.tags).effect(
                call, Intention(body.asset_id, tag, body.remove, body.source)
            )
            for tag in dict.fromkeys(body.tags)
        }
        touched = sorted(set().union(*(effect.assets for effect in effects.values())))
        seen = await self.guard.readable(call, touched)
        nodes = (await self.nodes.nodes(call.tenant_id, sorted(seen))).values()
        content = {
            "asset_id": body.asset_id,
            "remove": body.remove,
            "assets": len(seen),
            "by_tag": {tag: len(effect.assets & seen) for tag, effect in effects.items()},
            "by_type": Counter(node.asset_type or "unknown" for node in nodes),
            "by_owner": Counter(node.asset_owner or "nobody" for node in nodes),
            "truncated": len(seen) < len(touched) or any(effect.truncated for effect in effects.values()),
        }
        content |= await self._policies(call, effects) | await self._protection(call, effects, body.remove)
        return Response(to_json(content), media_type="application/json")

    async def _policies(self, call: Call, effects: dict[str, Effect]) -> dict[str, Any]:
        if not await self._may_read(call, "policy"):
            return {"policies": None}
        tags = {tag for tag, effect in effects.items() if effect.assets}
        rules = await self.policies.load_rules(call.tenant_id)
        about = [p for p in rules.policies if p.scope.kind is ScopeKind.TAG and p.scope.value in tags]
        return {"policies": len(about)}

    async def _protection(self, call: Call, effects: dict[str, Effect], remove: bool) -> dict[str, Any]:
        if not await self._may_read(call, "protection_rule"):
            return {"protection_rules": None, "enforcement_points": None}
        rules = [rule for rule in await self.rules.load(call.tenant_id) if rule.tag in effects]
        used: set[str] = set()
        points: set[str] = set()
        for tag in {rule.tag for rule in rules}:
            of_tag = [rule for rule in rules if rule.tag == tag]
            for column, after in await self._columns_after(call.tenant_id, tag, effects[tag], remove):
                if changed := _changed(column, after, of_tag):
                    points.add(column.asset_id)
                    used |= changed
        return {
            "protection_rules": len(used),
            "enforcement_points": len(await self.guard.readable(call, sorted(points))),
        }

    async def _columns_after(
        self, tenant_id: str, tag: str, effect: Effect, remove: bool
    ) -> list[tuple[Column, Column]]:
        """The columns that could be concerned, as they are and as they would be."""
        columns = await self.columns.below(tenant_id, effect.assets | effect.whole)
        above = {container for column in columns for container in column.containers}
        holders = await self.tags.holders(tenant_id, tag, sorted(above))
        after = holders - effect.whole if remove else holders | effect.whole
        return [(column, _retagged(column, tag, effect, remove, after)) for column in columns]

    async def _may_read(self, call: Call, kind: str) -> bool:
        return (await call.decide(Action.READ, Resource(call.tenant_id, kind))).allowed


def _retagged(column: Column, tag: str, effect: Effect, remove: bool, holders: set[str]) -> Column:
    has = (tag in column.tags) if column.asset_id not in effect.assets else not remove
    tags = column.tags | {tag} if has else column.tags - {tag}
    is_above = not holders.isdisjoint(column.containers)
    above = column.tags_above | {tag} if is_above else column.tags_above - {tag}
    return replace(column, tags=tags, tags_above=above)


def _changed(before: Column, after: Column, rules: list[Rule]) -> set[str]:
    """The rules that begin or cease to protect the column."""
    was = {each.rule_id for each in protections_of(before, rules)}
    return was ^ {each.rule_id for each in protections_of(after, rules)}
