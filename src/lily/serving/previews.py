"""What a tag, or its removal, would do before it is done: the same rule, read only, asked hop by hop."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lily.access.calls import Call
from lily.domain.lineage import EVERYBODY
from lily.domain.tags import Asserter
from lily.repositories.postgres.tags import PostgresTags, Reach, Standing

#: A preview looks at no more facts than this, and says so.
MAX_FACTS = 200_000
_CHUNK = 20_000

Fact = tuple[str, bool]  # asset, and whether the tag stands for a part of it only


@dataclass(frozen=True, slots=True)
class Intention:
    """To assert a tag on an asset, or to take back what a source (`*`: everybody) says."""

    asset_id: str
    tag: str
    remove: bool = False
    source: str = ""

    def comes_true(self, standing: Standing) -> bool:
        """Whether it changes if the tag is asserted on the asset itself."""
        words = {word.source: word for word in standing.words}
        everybody = words.get(EVERYBODY)
        if not self.remove:
            own = words.get(self.source or Asserter.USER)
            beaten = any(word and word.is_ahead and not word.holds for word in (own, everybody))
            return standing.is_heard and not standing.is_asserted and not beaten
        kept = [
            word
            for word in standing.words
            if word.holds and (word.is_ahead or self.source not in ("", EVERYBODY, word.source))
        ]
        return standing.is_asserted and not kept


@dataclass
class Effect:
    """The assets that would gain or lose the tag, and of them those for which it stands as a whole."""

    assets: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    truncated: bool = False


@dataclass
class _Facts:
    """Facts of the tag that are in force, as far as they were looked at."""

    at: dict[str, set[bool]] = field(default_factory=dict)
    asserted: set[Fact] = field(default_factory=set)

    def note(self, reach: Reach) -> None:
        there = {flag for flag, has in ((False, reach.has_whole), (True, reach.has_partial)) if has}
        self.at[reach.to_id] = there
        if reach.is_asserted:
            self.asserted.add((reach.to_id, False))


class Previews:
    def __init__(self, tags: PostgresTags) -> None:
        self._tags = tags

    async def effect(self, call: Call, intention: Intention) -> Effect:
        """What would follow; whether the caller may see it is for whoever shows it."""
        return await self.effect_in(call.tenant_id, intention)

    async def effect_in(self, tenant_id: str, intention: Intention) -> Effect:
        standing = await self._tags.standing(tenant_id, intention.asset_id, intention.tag)
        if not intention.comes_true(standing):
            return Effect()
        if intention.remove:
            return await self._losses(tenant_id, intention, standing)
        return await self._gains(tenant_id, intention, standing)

    async def _gains(self, tenant_id: str, intention: Intention, standing: Standing) -> Effect:
        start = (intention.asset_id, False)
        if standing.has_whole:
            return Effect()
        facts = _Facts({intention.asset_id: {True} if standing.has_partial else set()})
        new: set[Fact] = {start}
        frontier = [start]
        while frontier and len(new) < MAX_FACTS:
            reached = await self._children(tenant_id, intention.tag, frontier, facts)
            ends = dict.fromkeys((each.to_id, each.to_is_partial) for each in reached if not each.is_there)
            frontier = [fact for fact in ends if fact not in new]
            new.update(frontier)
        gained = {asset for asset, _ in new if not facts.at[asset]}
        return Effect(gained, {asset for asset, partial in new if not partial}, bool(frontier))

    async def _losses(self, tenant_id: str, intention: Intention, standing: Standing) -> Effect:
        start = (intention.asset_id, False)
        facts = _Facts({intention.asset_id: {False, True} if standing.has_partial else {False}})
        below: dict[Fact, list[Fact]] = {start: []}  # what follows from it, maybe among other things
        frontier = [start]
        while frontier and len(below) < MAX_FACTS:
            reached: list[Fact] = []
            for each in await self._children(tenant_id, intention.tag, frontier, facts):
                end = (each.to_id, each.to_is_partial)
                below[each.asset_id, each.is_partial].append(end)
                if end not in below:
                    below[end] = []
                    reached.append(end)
            frontier = reached
        kept = await self._kept(tenant_id, intention.tag, below, facts.asserted - {start})
        lost = below.keys() - kept
        assets = {asset for asset, _ in lost if all((asset, flag) in lost for flag in facts.at[asset])}
        return Effect(assets, {asset for asset, partial in lost if not partial}, bool(frontier))

    async def _children(self, tenant_id: str, tag: str, frontier: list[Fact], facts: _Facts) -> list[Reach]:
        found: list[Reach] = []
        for first in range(0, len(frontier), _CHUNK):
            found += await self._tags.children(tenant_id, tag, frontier[first : first + _CHUNK])
        for reach in found:
            if reach.to_id not in facts.at:
                facts.note(reach)
        return found

    async def _kept(
        self, tenant_id: str, tag: str, below: Mapping[Fact, list[Fact]], asserted: Collection[Fact]
    ) -> set[Fact]:
        """Those that stay: asserted themselves, supported from elsewhere, or following from such."""
        kept = {fact for fact in asserted if fact in below}
        looked = list(below)
        for first in range(0, len(looked), _CHUNK):
            for support in await self._tags.parents(tenant_id, tag, looked[first : first + _CHUNK]):
                if (support.from_id, support.from_is_partial) not in below:
                    kept.add((support.asset_id, support.is_partial))
        frontier = list(kept)
        while frontier:
            frontier = list({end for fact in frontier for end in below[fact]} - kept)
            kept.update(frontier)
        return kept
