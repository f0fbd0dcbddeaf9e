"""Explains tags for every interface: where each comes from, by which way, and why it had been there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lily.access.assets import AssetGuard
from lily.access.calls import Call
from lily.repositories.postgres.assets import KnownAsset
from lily.repositories.postgres.tags import PostgresTags, Support

#: An explanation looks at no more facts than this, and says so.
MAX_FACTS = 20_000
REDACTED = "(not yours to read)"

Fact = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class Origins:
    """Where a tag is asserted that reaches an asset; each with a shortest path, from the origin on."""

    paths: dict[str, list[Support]]
    truncated: bool


class Classification:
    def __init__(self, tags: PostgresTags, guard: AssetGuard) -> None:
        self.tags = tags
        self._guard = guard

    async def origins(self, call: Call, asset_id: str, tag: str) -> Origins:
        """Every asset where the tag is asserted and from which it reaches this one, nearest first."""
        seen: dict[Fact, Support | None] = {(asset_id, False): None, (asset_id, True): None}
        frontier: list[Fact] = list(seen)
        found: dict[str, list[Support]] = {}
        while frontier and len(seen) < MAX_FACTS:
            reached: list[Fact] = []
            for support in await self.tags.parents(call.tenant_id, tag, frontier):
                fact = (support.from_id, support.from_is_partial)
                if fact in seen:
                    continue
                seen[fact] = support
                reached.append(fact)
                if support.from_is_asserted and support.from_id not in found:
                    found[support.from_id] = _path(fact, seen)
            frontier = reached
        return Origins(found, truncated=bool(frontier))

    async def shown(self, call: Call, origins: Origins, explain: bool) -> list[dict[str, Any]]:
        """Origins as a caller sees them: what they may not read is redacted."""
        assets = set(origins.paths)
        if explain:
            assets |= {
                end for path in origins.paths.values() for s in path for end in (s.asset_id, s.from_id)
            }
        readable = await self._guard.show(call, sorted(assets), "origins") if assets else set()
        known = (
            await self._guard.assets.traits(call.tenant_id, sorted(origins.paths)) if origins.paths else {}
        )

        def name(asset_id: str) -> str:
            return asset_id if asset_id in readable else REDACTED

        return [
            {
                "asset_id": name(origin),
                "distance": len(path),
                "is_deleted": origin in readable and _is_gone(known.get(origin)),
            }
            | ({"path": [_edge(support, name) for support in path]} if explain else {})
            for origin, path in origins.paths.items()
        ]


def _is_gone(known: KnownAsset | None) -> bool:
    """Deleted or purged; such an origin counts only where the tenant keeps what came from it."""
    return known is not None and (known.traits.is_deleted or not known.is_visible)


def _path(fact: Fact, seen: dict[Fact, Support | None]) -> list[Support]:
    """From an origin down: each step was reached first, so the way is a shortest one."""
    path: list[Support] = []
    support = seen[fact]
    while support is not None:
        path.append(support)
        support = seen[support.asset_id, support.is_partial]
    return path


def _edge(support: Support, name: Any) -> dict[str, str]:
    return {
        "from_asset_id": name(support.from_id),
        "to_asset_id": name(support.asset_id),
        "relationship_type": support.relationship_type,
    }
