"""Sends what a run found: decided like every other write, in batches, several on their way at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lily.access.assets import AssetGuard
from lily.access.calls import Call
from lily.domain.errors import QuotaExceeded, Unavailable
from lily.ingest.assertions import Arrival, Draft
from lily.ingest.recorder import Receipt, Recorder, Submission, Waiting
from lily.repositories.postgres.scraping import ScrapedItem, ScrapedItems

_ON_THEIR_WAY = 8
_TRIES = 3
_PAUSE_SECONDS = 1.0
_MOST_NOTES = 20
Fields = Mapping[str, Any]


class Outbox:
    """The way from a run to the log: what was accepted is remembered as sent, what was refused is counted."""

    #: How long the end of a run waits until what it sent is visible; it is safe before.
    see_seconds = 60.0

    def __init__(self, recorder: Recorder, guard: AssetGuard, items: ScrapedItems, call: Call) -> None:
        self.guard = guard
        self.items = items
        self.call = call
        self.counts: Counter[str] = Counter()
        self.notes: list[str] = []
        self._recorder = recorder
        self._sending: set[asyncio.Task[None]] = set()

    def note(self, text: str) -> None:
        """Something whoever started the job should know; the first ones are kept."""
        if len(self.notes) < _MOST_NOTES and text not in self.notes:
            self.notes.append(text)

    async def refused(
        self, writes: Sequence[tuple[str, Fields]], inside: Mapping[str, frozenset[str]]
    ) -> set[int]:
        """The positions of the writes that the decision point does not allow."""
        batch = replace(self.call, notebook=self.call.notebook.fresh())
        return set(await self.guard.refusals(batch, writes, inside)) if writes else set()

    async def send(self, arrival: Arrival, drafts: Sequence[Draft], sent: Sequence[ScrapedItem]) -> None:
        """Append events; `sent` is what is remembered once they are safe, one item for each of the first."""
        if drafts:
            await self._begin(self._send(arrival, drafts, sent))

    async def forget(self, arrival: Arrival, drafts: Sequence[Draft], gone: Sequence[ScrapedItem]) -> None:
        """Append events after which these items are no longer remembered."""

        async def forgetting() -> None:
            await self._record(arrival, drafts)
            await self.items.forget(gone)

        if drafts:
            await self._begin(forgetting())

    async def settle(self) -> None:
        """Return when everything sent is visible, or safe for so long that something is slow."""
        while self._sending:
            await self._wait(asyncio.ALL_COMPLETED)

    async def abandon(self) -> None:
        """End what is on its way."""
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)

    async def _begin(self, work: Awaitable[None]) -> None:
        while len(self._sending) >= _ON_THEIR_WAY:
            await self._wait(asyncio.FIRST_COMPLETED)
        self._sending.add(asyncio.ensure_future(work))

    async def _wait(self, until: str) -> None:
        done, self._sending = await asyncio.wait(self._sending, return_when=until)
        for task in done:
            task.result()

    async def _send(self, arrival: Arrival, drafts: Sequence[Draft], sent: Sequence[ScrapedItem]) -> None:
        receipt = await self._record(arrival, drafts)
        dead = set()
        for refusal in await self._recorder.refusals(arrival.tenant_id, receipt):
            dead.add(refusal.index)
            self.counts["dead"] += 1
            self.note(f"{drafts[refusal.index].asset_id}: {refusal.reason}: {refusal.detail}")
        await self.items.keep([item for place, item in enumerate(sent) if place not in dead])

    async def _record(self, arrival: Arrival, drafts: Sequence[Draft]) -> Receipt:
        submission = Submission(arrival, drafts, Waiting(self.see_seconds, must_see=False), None)
        return await patiently(lambda: self._recorder.record(submission))


async def patiently(record: Callable[[], Awaitable[Receipt]]) -> Receipt:
    """The receipt; a log that hesitates is asked again, and a tenant's rate of events is waited for."""
    tries = 0
    while True:
        try:
            return await record()
        except QuotaExceeded as error:
            if error.values.get("quota") != "events":  # more time does not help a tenant that is full
                raise
            await asyncio.sleep(error.values["retry_after"])
        except Unavailable:
            tries += 1
            if tries == _TRIES:
                raise
            await asyncio.sleep(_PAUSE_SECONDS)
