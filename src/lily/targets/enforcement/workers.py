"""One database kept as it must be: woken by what changes here or there, looking by itself now and then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg
import structlog

from lily.domain.errors import LilyError
from lily.domain.protection import Protection
from lily.repositories.postgres.enforcement import CameOf, EnforcementLedger, Spoken, TargetState
from lily.targets.enforcement.accounts import came_of, outcome_document, spoken, troubles_of
from lily.targets.enforcement.controls import Said
from lily.targets.enforcement.scrapes import OrderScrape, ScrapeOrders
from lily.targets.enforcement.targets import Access, Target
from lily.targets.enforcement.wanted import Wanted, Wishes, relations_of
from lily.targets.enforcement.workshop import EVERYTHING, Outcome, Scope

#: Where the database cannot tell of changes, they are repaired within this time.
CHECK_SECONDS = 30.0
CHECK = "check"
PREPARATION, RELEASE = "preparation", "release"
_RETRY_SECONDS = 1.0
_LONGEST_PAUSE = 30.0
#: Anybody can make the database tell of changes, as often as they like: it is looked at no oftener than this.
_DISTURBED_SECONDS = 1.0

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Inbox:
    """What a worker has been told and not looked at yet."""

    assets: set[str] = field(default_factory=set)
    relations: set[str] = field(default_factory=set)
    #: The rules changed, somebody asks, or it is time: read everything again.
    everything: str = ""
    #: Somebody changed the database itself.
    is_disturbed: bool = False

    def take(self) -> Inbox:
        taken = Inbox(self.assets, self.relations, self.everything, self.is_disturbed)
        self.assets, self.relations, self.everything, self.is_disturbed = set(), set(), "", False
        return taken

    def put_back(self, taken: Inbox) -> None:
        self.assets |= taken.assets
        self.relations |= taken.relations
        self.everything = self.everything or taken.everything
        self.is_disturbed = self.is_disturbed or taken.is_disturbed

    def __bool__(self) -> bool:
        return bool(self.assets or self.relations or self.everything or self.is_disturbed)


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """What all workers work with, and what leads to the database of one."""

    open_target: Callable[[], Target]
    wishes: Wishes
    ledger: EnforcementLedger
    order_scrape: OrderScrape


class Worker:
    """Works on one database, one thing after the other, until it is cancelled."""

    def __init__(self, access: Access, parts: WorkerParts) -> None:
        self.access = access
        self._open_target = parts.open_target
        self._wishes = parts.wishes
        self._ledger = parts.ledger
        self._scrapes = ScrapeOrders(access, parts.order_scrape)
        self._inbox = Inbox(everything="start")
        self._wanted = Wanted()
        self._woken = asyncio.Event()
        self._problems: list[str] = []
        self._troubles: dict[str, str] = {}
        self._pause = _RETRY_SECONDS
        #: What a look at everything found in order: the database's trace, and what was wanted.
        self._checked: tuple[str, dict[str, tuple[Protection, ...]]] = ("", {})
        self._unfinished: tuple[tuple[Spoken, ...], str] = ((), "")
        #: When a disturbance was looked at last.
        self._disturbed_at = 0.0
        #: The socket on which the database tells of changes, while it is listened to.
        self._ears: int | None = None

    def tell_assets(self, assets: Iterable[str]) -> None:
        self._inbox.assets.update(assets)
        self._woken.set()

    def tell_everything(self, reason: str) -> None:
        self._inbox.everything = reason
        self._woken.set()

    def tell_disturbed(self) -> None:
        if self._inbox.is_disturbed:
            return
        self._inbox.is_disturbed = True
        early = self._disturbed_at + _DISTURBED_SECONDS - time.monotonic()
        if early <= 0:
            self._woken.set()
        else:
            asyncio.get_running_loop().call_later(early, self._woken.set)

    async def run(self) -> None:
        pause = _RETRY_SECONDS
        while True:
            began = time.monotonic()
            try:
                await self._work_until_lost()
            except Exception as error:  # one database's trouble is not another's
                _log.warning("target_lost", connector_id=self.access.connector_id, error=str(error).strip())
                with suppress(LilyError, psycopg.Error):
                    await self._tell("unreachable", {"error": str(error).strip()[:500]})
            self.tell_everything("start")
            lasted = time.monotonic() - began
            pause = _RETRY_SECONDS if lasted > _LONGEST_PAUSE else min(pause * 2, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def run_release(self) -> None:
        """Leave the database as if Lily had never been there, however often that must be tried."""
        while True:
            try:
                if await self.release():
                    return
            except Exception as error:  # as above
                _log.warning("not_released", connector_id=self.access.connector_id, error=str(error).strip())
                with suppress(LilyError, psycopg.Error):
                    await self._tell("unreachable", {"error": f"not released: {error}".strip()[:500]})
            await asyncio.sleep(CHECK_SECONDS)

    async def release(self) -> bool:
        """Whether nothing of Lily is left in the database; what somebody is in the way of stays protected."""
        target = await asyncio.to_thread(self._open_target)
        try:
            plan_id, outcome = await self._give_back(target)
            is_free = not outcome.is_unfinished
            left = await asyncio.to_thread(target.drop) if is_free else []
            if is_free:
                await self._ledger.settle(self.access.key, plan_id, CameOf(done=[""]))
        finally:
            target.close()
        detail: dict[str, object] = {"problems": left} if is_free else {"troubles": troubles_of(outcome)}
        await self._tell("released" if is_free else "incomplete", detail)
        return is_free

    async def _give_back(self, target: Target) -> tuple[str, Outcome]:
        """Protect nothing; what will be said to leave is in the ledger with it."""
        workshop = target.workshop
        works = await asyncio.to_thread(workshop.plan, {})
        leaving = await asyncio.to_thread(target.preparation.leaving)
        said = [*spoken(workshop, works), *(Spoken("", workshop.text(each)) for each in leaving)]
        plan_id = await self._begin(RELEASE, said)
        outcome = await asyncio.to_thread(workshop.apply, works)
        await self._ledger.settle(self.access.key, plan_id, came_of(works, outcome))
        return plan_id, outcome

    async def _work_until_lost(self) -> None:
        target = await asyncio.to_thread(self._open_target)
        try:
            self._ears = target.ears.fileno()
            asyncio.get_running_loop().add_reader(self._ears, self._listen, target)
            while True:
                await self._step(target)
                await self._scrapes.look(target)
                await self._wait()
        finally:
            self._stop_listening()
            target.close()
            await self._scrapes.close()

    def _listen(self, target: Target) -> None:
        try:
            if target.heard():
                self.tell_disturbed()
        except psycopg.Error:
            self._stop_listening()
            self.tell_everything("start")  # which finds the connection lost

    def _stop_listening(self) -> None:
        """Once: a connection that is lost no longer knows its number, which may be another's by now."""
        if self._ears is not None:
            asyncio.get_running_loop().remove_reader(self._ears)
            self._ears = None

    async def _wait(self) -> None:
        seconds = self._pause if self._inbox else CHECK_SECONDS
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            if not self._inbox:
                self._inbox.everything = CHECK
        self._woken.clear()

    async def _step(self, target: Target) -> None:
        """Do what has come; what fails is told again."""
        told = self._inbox.take()
        if not told:
            return
        if told.is_disturbed or told.everything:
            self._scrapes.tell_disturbed()
        if told.is_disturbed:
            self._disturbed_at = time.monotonic()
        try:
            requests = await self._ledger.asked(*self.access.key) if told.everything else []
            outcome = await self._do(target, told)
            if requests:
                await self._ledger.answer(self.access.tenant_id, requests, outcome_document(outcome))
        except BaseException:
            self._inbox.put_back(told)
            raise
        again = {*outcome.waiting, *outcome.failed}
        self._pause = min(self._pause * 2, _LONGEST_PAUSE) if again else _RETRY_SECONDS
        self._inbox.relations |= {
            target.workshop.external_id(label) for label in (*again, *outcome.disturbed)
        }
        if outcome.disturbed:
            self._woken.set()

    async def _do(self, target: Target, told: Inbox) -> Outcome:
        if told.everything:
            self._problems = await self._prepare(target)
            self._wanted = await self._wishes.read(self.access)
            scope = self._whole_scope()
        else:
            affected = set(told.relations)
            if told.assets:
                affected |= await self._wishes.refresh(self.access, self._wanted, sorted(told.assets))
            if not affected and not told.is_disturbed:
                return Outcome()
            # What somebody made may have a name that is to be protected and that nothing had before.
            scope = self._whole_scope(affected) if told.is_disturbed else Scope(frozenset(affected))
        if told.everything == CHECK and await self._is_untouched(target):
            return Outcome()
        # Taken before the look: what happens after it, and is not looked at, must show in the next one.
        trace = await self._trace(target) if told.everything else None
        outcome = await self._enforce(target, scope, told.everything or ("tags" if told.assets else CHECK))
        if trace and outcome == Outcome():
            self._checked = trace
        if told.everything or outcome.is_unfinished or self._troubles:
            await self._tell_state(target, outcome)
        return outcome

    async def _prepare(self, target: Target) -> list[str]:
        """What was said is in the ledger before it comes into force."""
        loop, begun = asyncio.get_running_loop(), list[str]()

        def record(said: list[Said]) -> None:
            both = [Spoken("", *each) for pair in said for each in ((pair[0], False), (pair[1], True))]
            begin = self._ledger.begin(*self.access.key, PREPARATION, both)
            begun.append(asyncio.run_coroutine_threadsafe(begin, loop).result(_LONGEST_PAUSE))

        problems = await asyncio.to_thread(target.preparation.make, record)
        for plan_id in begun:
            await self._ledger.settle(self.access.key, plan_id, CameOf(done=[""]))
        return problems

    async def _is_untouched(self, target: Target) -> bool:
        """Whether a look at everything would find what the last one found."""
        return not self.access.options.deny_unknown and self._checked == await self._trace(target)

    async def _trace(self, target: Target) -> tuple[str, dict[str, tuple[Protection, ...]]]:
        return await asyncio.to_thread(target.workshop.trace), self._wanted.protections()

    def _whole_scope(self, also: Iterable[str] = ()) -> Scope:
        if self.access.options.deny_unknown:
            return EVERYTHING
        places = (relations_of(place) for place, protections in self._wanted.columns.values() if protections)
        names = (name for each in places for name in each)
        return Scope(frozenset([*names, *also]), with_protected=True)

    async def _enforce(self, target: Target, scope: Scope, reason: str) -> Outcome:
        protections, known = self._wanted.protections(), self._wanted.known
        works = await asyncio.to_thread(target.workshop.plan, protections, scope, known)
        if not works:
            return Outcome()
        plan_id = await self._begin(reason, spoken(target.workshop, works))
        outcome = await asyncio.to_thread(target.workshop.apply, works)
        if not outcome.is_unfinished:
            self._unfinished = ((), "")
        await self._ledger.settle(self.access.key, plan_id, came_of(works, outcome))
        return outcome

    async def _begin(self, reason: str, said: list[Spoken]) -> str:
        """The plan in the ledger: what is tried once more is not written down again."""
        again, plan_id = self._unfinished
        if again != tuple(said):
            plan_id = await self._ledger.begin(*self.access.key, reason, said)
            self._unfinished = tuple(said), plan_id
        return plan_id

    async def _tell_state(self, target: Target, outcome: Outcome) -> None:
        self._troubles = troubles_of(outcome)
        excepted = await asyncio.to_thread(target.workshop.excepted)
        detail = {
            "problems": self._problems,
            "excepted": [{"role": role, "because": why} for role, why in excepted],
            "troubles": self._troubles,
        }
        await self._tell("incomplete" if self._troubles else "enforced", detail)

    async def _tell(self, state: str, detail: dict[str, object]) -> None:
        await self._ledger.tell(self.access.tenant_id, TargetState(self.access.connector_id, state, detail))
