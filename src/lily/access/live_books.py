"""The rules of every tenant as PostgreSQL has them, relied on only while no change can go unheard."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict

from lily.access.books import Book
from lily.domain.errors import Unavailable
from lily.repositories.postgres.announcements import Announcement, Announcements
from lily.repositories.postgres.policies import PostgresPolicies

RULES = "rules"
#: How long a call waits for a lost connection to PostgreSQL before it is told to try again.
_PATIENCE_SECONDS = 2.0
_LOOK_SECONDS = 0.01
_MOST_BOOKS = 1000


class LiveBooks:
    """A change drops what it concerns before the change is acknowledged to whoever made it (ADR 12)."""

    def __init__(self, announcements: Announcements, policies: PostgresPolicies) -> None:
        self._announcements = announcements
        self._policies = policies
        self._books: dict[str, Book] = {}
        self._changes: dict[str, int] = defaultdict(int)
        self._losses = 0
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        announcements.subscribe(self._hear)

    def current(self, tenant_id: str) -> Book:
        book = self._books.get(tenant_id)
        if book is None or not self._announcements.is_current():
            raise _unknown()
        return book

    async def refresh(self, tenant_id: str) -> None:
        while tenant_id not in self._books or not self._announcements.is_current():
            await self._wait_until_current()
            async with self._turns[tenant_id]:
                if tenant_id not in self._books:
                    await self._load(tenant_id)

    async def _load(self, tenant_id: str) -> None:
        """Read the rules; what was changed meanwhile is read again."""
        known = (self._changes[tenant_id], self._losses)
        book = Book(await self._policies.load_rules(tenant_id))
        if known == (self._changes[tenant_id], self._losses):
            if len(self._books) >= _MOST_BOOKS:
                self._books.pop(next(iter(self._books)))
            self._books[tenant_id] = book

    async def _wait_until_current(self) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._announcements.is_current():
            if time.monotonic() > deadline:
                raise _unknown()
            await asyncio.sleep(_LOOK_SECONDS)

    def _hear(self, announcement: Announcement | None) -> None:
        if announcement is None:
            self._losses += 1
            self._books.clear()
        elif announcement.kind == RULES:
            self._changes[announcement.tenant_id] += 1
            self._books.pop(announcement.tenant_id, None)


def _unknown() -> Unavailable:
    return Unavailable(
        "the rules in force cannot be confirmed, so nothing is allowed; try again", part="postgres"
    )
