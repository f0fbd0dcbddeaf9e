"""The routes that read classification: the tags of an asset, why it has them, and how tags spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic_core import to_json

from lily.access.assets import AssetGuard
from lily.access.calls import Call, Reading
from lily.access.requests import check_id
from lily.access.routers import Route, add_routes
from lily.domain.errors import NotFound
from lily.domain.tags import BUILT_IN, SPREADING
from lily.repositories.postgres.tags import Assertion, Definition, EffectiveTag, TagChange
from lily.serving.classification import Classification
from lily.serving.rest.after import AfterEvent
from lily.serving.rest.lineage_answers import AssetClassification, DefinedTag, TagList, TagProof

CLASSIFICATION = "/lily/v1/metadata/governance/classification"
TAGS = "/lily/v1/metadata/governance/tags"
_MOST_CHANGES = 100
#: Where the reason of a change names assets.
_NAMING = ("origin", "from")

Explain = Annotated[bool, Query(description="With a shortest path from every origin.")]


class ClassificationReads:
    def __init__(self, classification: Classification, guard: AssetGuard, after: AfterEvent) -> None:
        self._classification = classification
        self._tags = classification.tags
        self._guard = guard
        self._after = after

    def router(self) -> APIRouter:
        one = CLASSIFICATION + "/{asset_id:path}"
        return add_routes(
            APIRouter(tags=["classification"], dependencies=[Depends(self._after.visible)]),
            Route(one + "/why", "GET", self.why, "getTagProof", TagProof),
            Route(one, "GET", self.get, "getClassification", AssetClassification),
            Route(TAGS, "GET", self.list_tags, "listTags", TagList),
            Route(TAGS + "/{tag:path}", "GET", self.tag, "getTag", DefinedTag),
        )

    async def get(self, call: Reading, asset_id: str, explain: Explain = False) -> Response:
        """The tags in force on an asset, each with who asserts it there and where else it comes from.

        `fields` are owners, terms and retention classes that spread, as the tags they are within Lily.
        """
        await self._readable(call, asset_id)
        assertions = await self._tags.assertions(call.tenant_id, asset_id)
        effective = await self._tags.effective(call.tenant_id, asset_id)
        shown = {tag.tag: await self._shown(call, asset_id, tag, assertions, explain) for tag in effective}
        fields = [name for name in shown if name.startswith(SPREADING)]
        content = {
            "asset_id": asset_id,
            "tags": [each for name, each in shown.items() if name not in fields],
            "effective_tags": [name for name in shown if name not in fields],
            "fields": [shown[name] for name in fields],
            "opted_out_of": await self._tags.opt_outs(call.tenant_id, asset_id),
        }
        return Response(to_json(content), media_type="application/json")

    async def why(self, call: Reading, asset_id: str, tag: str) -> Response:
        """Why an asset has a tag: origins, paths and the rule; why it had one that is gone: its history."""
        await self._readable(call, asset_id)
        effective = await self._tags.effective(call.tenant_id, asset_id)
        assertions = await self._tags.assertions(call.tenant_id, asset_id)
        found = next((each for each in effective if each.tag == tag), None)
        history = await self._tags.history(call.tenant_id, asset_id, tag, _MOST_CHANGES)
        content = {
            "asset_id": asset_id,
            "tag": tag,
            "is_effective": found is not None,
            "rule": _rule(await self._tags.definition(call.tenant_id, tag)),
            "history": await self._changes(call, history),
        }
        if found is not None:
            content |= await self._shown(call, asset_id, found, assertions, explain=True)
        return Response(to_json(content), media_type="application/json")

    async def list_tags(self, call: Reading) -> Response:
        """The tags somebody has said something about, and those known from the start."""
        names = await self._tags.definitions(call.tenant_id)
        shown = [_definition(name, await self._tags.definition(call.tenant_id, name)) for name in names]
        return Response(to_json({"tags": shown}), media_type="application/json")

    async def tag(self, call: Reading, tag: str) -> Response:
        """How a tag spreads."""
        found = await self._tags.definition(call.tenant_id, check_id(tag))
        if found.defined_at is None and tag not in BUILT_IN:
            raise NotFound(f"nobody has defined the tag {tag!r}; define it with PUT {TAGS}/{tag}")
        return Response(to_json(_definition(tag, found)), media_type="application/json")

    async def _readable(self, call: Call, asset_id: str) -> None:
        if await self._guard.find(call, check_id(asset_id)) is None:
            raise NotFound(f"there is no asset {asset_id!r}")

    async def _shown(
        self, call: Call, asset_id: str, tag: EffectiveTag, assertions: list[Assertion], explain: bool
    ) -> dict[str, Any]:
        origins = await self._classification.origins(call, asset_id, tag.tag)
        return {
            "tag": tag.tag,
            "is_asserted": tag.is_asserted,
            "is_propagated": bool(origins.paths),
            "since": tag.since,
            "cause": tag.cause,
            "assertions": [_assertion(each) for each in assertions if each.tag == tag.tag],
            "origins": await self._classification.shown(call, origins, explain),
            "origins_truncated": origins.truncated,
        }

    async def _changes(self, call: Call, history: Sequence[TagChange]) -> list[dict[str, Any]]:
        named = {str((each.reason or {}).get(name) or "") for each in history for name in _NAMING} - {""}
        readable = await self._guard.show(call, sorted(named), "origins") if named else set()
        return [_change(each, readable) for each in history]


def _change(change: TagChange, readable: set[str]) -> dict[str, Any]:
    """What came of a change; which assets it came from is told of those that may be read."""
    reason = {
        name: None if name in _NAMING and value not in readable else value
        for name, value in (change.reason or {}).items()
    }
    outcome = "added" if change.was_added else "removed"
    return {"at": change.at, "outcome": outcome, "cause": change.cause, "reason": reason}


def _assertion(assertion: Assertion) -> dict[str, Any]:
    return {
        "source": assertion.source,
        "at": assertion.at,
        "event_id": assertion.event_id,
        "actor": assertion.actor,
        "evidence": (assertion.body or {}).get("evidence"),
    }


def _rule(definition: Definition) -> dict[str, Any]:
    return {
        "propagate": {
            "lineage": definition.lineage,
            "containment": definition.containment,
            "indirect": definition.indirect,
        },
        "stopped_by_masking": definition.stopped_by_masking,
    }


def _definition(tag: str, definition: Definition) -> dict[str, Any]:
    return {
        "tag": tag,
        **_rule(definition),
        "keep_when_deleted": bool((definition.body or {}).get("keep_when_deleted")),
        "description": (definition.body or {}).get("description"),
        "is_built_in": tag in BUILT_IN,
        "defined_at": definition.defined_at,
        "defined_by": definition.actor,
    }
