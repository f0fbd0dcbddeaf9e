"""Decisions about assets: what a caller may see of them and do to them, on what they are and would become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lily.access.calls import Call, forbidden
from lily.access.decisions import Action, Decision, Resource
from lily.access.notebooks import batch_resource
from lily.access.principals import Principal
from lily.access.protections import ProtectionGuard
from lily.domain.assets import Traits
from lily.domain.errors import Forbidden, NotFound
from lily.repositories.postgres.assets import KnownAsset, PostgresAssets, StoredAsset

Fields = Mapping[str, Any]
NOWHERE: Mapping[str, frozenset[str]] = {}


class AssetGuard:
    """What a caller may not read does not exist for them: it is answered as if it were not there (ADR 11)."""

    def __init__(self, assets: PostgresAssets, protections: ProtectionGuard) -> None:
        self.assets = assets
        self.protections = protections

    async def find(self, call: Call, asset_id: str) -> StoredAsset | None:
        """The asset, if there is one the caller may read."""
        asset = await self.assets.find(call.tenant_id, asset_id)
        if asset is None:
            return None
        decision = await self.decide(call, Action.READ, asset.traits)
        call.notebook.note(Action.READ, resource_of(call.tenant_id, asset.traits), decision)
        return asset if decision.allowed else None

    async def find_for(self, call: Call, action: Action, asset_id: str) -> StoredAsset:
        """The asset to do this to; `Forbidden` for callers who may only read it, else `NotFound`."""
        asset = await self.assets.find(call.tenant_id, asset_id)
        if asset is None:
            raise NotFound(f"there is no asset {asset_id!r}; create it with POST /lily/v1/metadata")
        decision = await self.decide(call, action, asset.traits)
        call.notebook.note(action, resource_of(call.tenant_id, asset.traits), decision)
        if decision.allowed:
            return asset
        if await self.may(call, Action.READ, asset.traits):
            raise forbidden(call.principal, action, decision)
        raise NotFound(f"there is no asset {asset_id!r}; create it with POST /lily/v1/metadata")

    async def may(self, call: Call, action: Action, traits: Traits) -> bool:
        return (await self.decide(call, action, traits)).allowed

    async def decide(self, call: Call, action: Action, traits: Traits) -> Decision:
        async def attempt(call: Call) -> Decision:
            containers = await self._containers(call, [action], [traits.asset_id])
            resource = resource_of(call.tenant_id, traits, containers.get(traits.asset_id, frozenset()))
            return call.access.decide(call.principal, action, resource, call.circumstances)

        return await call.settle(attempt)

    async def resource(self, call: Call, asset_id: str) -> Resource:
        """The asset as decisions see it, whoever asks; one nobody knows has just its id."""
        found = await self.known_resources(call.tenant_id, [asset_id])
        return found.get(asset_id, Resource(call.tenant_id, id=asset_id))

    async def known_resources(self, tenant_id: str, asset_ids: Sequence[str]) -> dict[str, Resource]:
        """Those of the assets that exist, with all they are contained in."""
        known = await self.assets.traits(tenant_id, asset_ids)
        containers = await self.assets.containers(tenant_id, asset_ids)
        return {
            asset_id: resource_of(tenant_id, asset.traits, containers.get(asset_id, frozenset()))
            for asset_id, asset in known.items()
            if asset.is_visible
        }

    async def readable(self, call: Call, asset_ids: Sequence[str]) -> set[str]:
        """Those of the assets the caller may read; about one that nobody knows the decision is on its id."""
        return await call.settle(lambda call: self._readable(call, asset_ids))

    async def _readable(self, call: Call, asset_ids: Sequence[str]) -> set[str]:
        same = call.access.decide_for_all(call.principal, Action.READ, call.circumstances)
        if same is not None:
            return set(asset_ids) if same.allowed else set()
        known = await self.assets.traits(call.tenant_id, asset_ids)
        containers = await self._containers(call, [Action.READ], asset_ids)
        return {
            asset_id
            for asset_id in asset_ids
            if call.access.decide(
                call.principal,
                Action.READ,
                resource_of(
                    call.tenant_id,
                    known[asset_id].traits if asset_id in known else Traits(asset_id),
                    containers.get(asset_id, frozenset()),
                ),
                call.circumstances,
            ).allowed
        }

    async def show(self, call: Call, asset_ids: Sequence[str], where: str) -> set[str]:
        """Those the caller may read, which are then shown to them: the audit has those with tags."""
        seen = await self.readable(call, asset_ids)
        known = await self.assets.traits(call.tenant_id, sorted(seen)) if seen else {}
        call.notebook.note_shown([each for each, asset in known.items() if asset.traits.tags], where)
        return seen

    async def require_change(self, call: Call, asset: StoredAsset, fields: Fields) -> None:
        """Return when the caller may make this of an asset they may write."""
        write = (fields, KnownAsset(True, asset.traits))
        refused = await call.settle(lambda call: self._refusals(call, [write]))
        if refused:
            raise next(iter(refused.values()))
        await self.protections.require(call, asset.traits.asset_id, fields)

    async def refusals(
        self,
        call: Call,
        batch: Sequence[tuple[str, Fields]],
        inside: Mapping[str, frozenset[str]] = NOWHERE,
    ) -> dict[int, Forbidden]:
        """The writes of a batch that are refused, by position; each (asset id, fields) is decided on its own.

        An asset that exists must be writable as it is and as it would be, and a write must not show it to
        who could not read it: nobody tags themselves into access. Only who may ends protection.
        `inside` adds what Lily itself knows to contain an asset before that is effective.
        """
        protected = await self.protections.refusals(call, batch)
        return protected | await call.settle(lambda call: self._decided(call, batch, inside))

    async def _decided(
        self, call: Call, batch: Sequence[tuple[str, Fields]], inside: Mapping[str, frozenset[str]]
    ) -> dict[int, Forbidden]:
        same = call.access.decide_for_all(call.principal, Action.WRITE, call.circumstances)
        sees_alike = call.access.decide_for_all(_unscoped(call), Action.READ, call.circumstances)
        if same and sees_alike and not any(fields.get("is_deleted") for _, fields in batch):
            about = batch_resource(call.tenant_id, [asset_id for asset_id, _ in batch])
            call.notebook.note(Action.WRITE, about, same, len(batch))
            return (
                {}
                if same.allowed
                else {i: forbidden(call.principal, Action.WRITE, same) for i in range(len(batch))}
            )
        asset_ids = [asset_id for asset_id, _ in batch]
        known = await self.assets.traits(call.tenant_id, asset_ids)
        states = {asset_id: KnownAsset(False, Traits(asset_id)) for asset_id in asset_ids} | known
        refused = await self._refusals(
            call, [(fields, states[asset_id]) for asset_id, fields in batch], inside
        )
        if written := [asset_id for index, asset_id in enumerate(asset_ids) if index not in refused]:
            allowed = Decision(True, ("each decided on its own",))
            call.notebook.note(Action.WRITE, batch_resource(call.tenant_id, written), allowed, len(written))
        return refused

    async def _refusals(
        self,
        call: Call,
        writes: Sequence[tuple[Fields, KnownAsset]],
        known_inside: Mapping[str, frozenset[str]] = NOWHERE,
    ) -> dict[int, Forbidden]:
        actions = (Action.WRITE, Action.DELETE)
        seen = (*actions, Action.READ)
        containers = await self._containers(call, seen, [known.traits.asset_id for _, known in writes])
        refused: dict[int, Forbidden] = {}
        for index, (fields, known) in enumerate(writes):
            asset_id = known.traits.asset_id
            inside = containers.get(asset_id, frozenset()) | known_inside.get(asset_id, frozenset())
            after = known.traits.after(fields)
            states = [known.traits, after] if known.is_visible else [after]
            hides = after.is_deleted and not known.traits.is_deleted
            for action in actions if hides else actions[:1]:
                for state in states:
                    resource = resource_of(call.tenant_id, state, inside)
                    decision = call.access.decide(call.principal, action, resource, call.circumstances)
                    if not decision.allowed:
                        call.notebook.note(action, resource, decision)
                        refused.setdefault(index, forbidden(call.principal, action, decision))
            if known.is_visible and index not in refused and self._lifts(call, known.traits, after, inside):
                refused[index] = Forbidden("who may not read an asset may not lift what protects it")
        return refused

    def _lifts(self, call: Call, before: Traits, after: Traits, inside: frozenset[str]) -> bool:
        """Whether a write would show the asset to a caller who may not read it, whatever their scopes."""
        was, will = (
            call.access.decide(
                _unscoped(call), Action.READ, resource_of(call.tenant_id, state, inside), call.circumstances
            )
            for state in (before, after)
        )
        if will.allowed and not was.allowed:
            call.notebook.note(Action.READ, resource_of(call.tenant_id, before, inside), was)
            return True
        return False

    async def _containers(
        self, call: Call, actions: Sequence[Action], asset_ids: Sequence[str]
    ) -> dict[str, frozenset[str]]:
        if not any(call.access.sees_containers(call.principal, action) for action in actions):
            return {}
        return await self.assets.containers(call.tenant_id, asset_ids)


def _unscoped(call: Call) -> Principal:
    return replace(call.principal, scopes=None)


def resource_of(tenant_id: str, traits: Traits, containers: frozenset[str] = frozenset()) -> Resource:
    return Resource(
        tenant_id,
        id=traits.asset_id,
        asset_type=traits.asset_type,
        data_source=traits.data_source,
        tags=traits.tags,
        owner=traits.owner,
        containers=containers,
    )


def traits_of_document(document: Mapping[str, Any]) -> Traits:
    """The traits an asset had, from the document it was shown as."""
    assertions = document["tag_assertions"]
    return Traits(
        asset_id=document["asset_id"],
        asset_type=document["asset_type"],
        data_source=document["data_source"] or "",
        owner=document["asset_owner"] or "",
        source_tags=frozenset(assertions["source"]),
        user_tags=frozenset(assertions["user"]),
        is_deleted=document["is_deleted"],
    )
