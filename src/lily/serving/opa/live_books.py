"""The books of all tenants whose engines ask, kept current; one that may be behind is not answered from."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import psycopg
import structlog

from lily.domain.changes import ChangeKind
from lily.domain.errors import LilyError, Unavailable
from lily.domain.policies import ScopeKind
from lily.repositories.postgres.announcements import Announcement, Announcements
from lily.repositories.postgres.protected_columns import PostgresProtectedColumns
from lily.repositories.postgres.protection_rules import PROTECTION, PostgresProtectionRules
from lily.repositories.postgres.salts import ProtectionSalts
from lily.repositories.postgres.tasks import beside
from lily.serving.live.feeds import Heard, SharedFeed
from lily.serving.opa.books import Book

ENGINE = "trino"
#: What was told longer ago than this and is not in the book makes it useless.
STALE_SECONDS = 5.0
#: What nobody tells, such as a column put into another schema, is found by reading again: often where a rule
#: depends on it.
_REREAD_SECONDS = 60.0
_REREAD_OFTEN_SECONDS = 3.0
_UNUSED_SECONDS = 900.0
_RETRY_SECONDS = 0.2
_PATIENCE_SECONDS = 2.0
_LOOK_SECONDS = 0.01
_LOOKED_AT = frozenset({"asset_name", "asset_type", "data_source", "external_id", "metadata", "is_deleted"})

_log = structlog.get_logger(__name__)


@dataclass
class _Page:
    """A book and what is not in it yet."""

    book: Book
    asked_at: float
    read_at: float
    #: Assets told to have changed, and when the first of them was heard of.
    pending: set[str] = field(default_factory=set)
    pending_since: float = float("inf")
    #: How many changes of the rules were heard of, and how many are in the book.
    changes_heard: int = 1
    changes_read: int = 0
    reread_seconds: float = _REREAD_SECONDS

    @property
    def has_rules_in_force(self) -> bool:
        return self.changes_read == self.changes_heard


class ProtectionBooks:
    """Rules are in force when their change was acknowledged, tags as soon as their change was told."""

    def __init__(
        self,
        rules: PostgresProtectionRules,
        columns: PostgresProtectedColumns,
        salts: ProtectionSalts,
        announcements: Announcements,
        feed: SharedFeed,
    ) -> None:
        self._rules = rules
        self._columns = columns
        self._salts = salts
        self._announcements = announcements
        self._feed = feed
        self._pages: dict[str, _Page] = {}
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._wake = asyncio.Event()
        announcements.subscribe(self._hear_of_rules)
        feed.subscribe(self._hear)

    async def current(self, tenant_id: str) -> Book:
        """The tenant's book; `Unavailable` when it cannot be known to be current, and nothing is allowed."""
        await self._feed.start()
        if not await self._feed.is_current(STALE_SECONDS):
            raise _stale("the log of changes")
        page = await self._confirmed(tenant_id)
        now = time.monotonic()
        if now - page.pending_since > STALE_SECONDS:
            raise _stale("the tags in force")
        page.asked_at = now
        return page.book

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the books current while the context is open."""
        async with beside(self._keep_current()):
            yield

    async def _confirmed(self, tenant_id: str) -> _Page:
        """The page with the rules in force at this moment; a lost connection is waited for, not for long."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            page = self._pages.get(tenant_id)
            if page is None or not page.has_rules_in_force:
                page = await self._read(tenant_id)
            if self._announcements.is_current() and self._pages.get(tenant_id) is page:
                return page
            if time.monotonic() > deadline:
                raise _stale("the rules in force")
            await asyncio.sleep(_LOOK_SECONDS)

    async def _read(self, tenant_id: str) -> _Page:
        async with self._turns[tenant_id]:
            page = self._pages.get(tenant_id)
            if page is None:
                now = time.monotonic()
                page = _Page(Book(await self._salts.of(tenant_id, ENGINE)), now, now)
                # What changes from here on is told and looked at again, so nothing is missed while reading.
                self._pages[tenant_id] = page
                try:
                    async for column in self._columns.named(tenant_id):
                        page.book.name(column)
                except BaseException:
                    self._pages.pop(tenant_id, None)
                    raise
            while not page.has_rules_in_force:  # also when they were changed while they were read
                await self._read_rules(tenant_id, page)
            return page

    async def _read_rules(self, tenant_id: str, page: _Page) -> None:
        """Until they are in the book, nobody is answered by those before."""
        heard, page.read_at = page.changes_heard, time.monotonic()
        rules = await self._rules.load(tenant_id)
        found = await self._columns.protected(tenant_id, rules)
        depend = any(rule.includes_contained or rule.scope.kind is ScopeKind.CONTAINED for rule in rules)
        page.reread_seconds = _REREAD_OFTEN_SECONDS if depend else _REREAD_SECONDS
        page.book.set_rules(rules, [column for column, _ in found])
        for column, _ in found:
            page.book.name(column)
        page.changes_read = heard

    async def _keep_current(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_REREAD_OFTEN_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                self._forget_unused()
            self._wake.clear()
            for tenant_id, page in list(self._pages.items()):
                try:
                    await self._catch_up(tenant_id, page)
                except (LilyError, psycopg.Error) as error:  # tried again; too long makes the book stale
                    _log.warning("protection_book_behind", tenant=tenant_id, error=str(error))
                    await asyncio.sleep(_RETRY_SECONDS)
                    self._wake.set()

    async def _catch_up(self, tenant_id: str, page: _Page) -> None:
        async with self._turns[tenant_id]:
            if not page.has_rules_in_force or time.monotonic() - page.read_at > page.reread_seconds:
                await self._read_rules(tenant_id, page)
            if not page.pending:
                return
            changed, since = page.pending, page.pending_since
            page.pending, page.pending_since = set(), float("inf")
            try:
                columns = await self._columns.below(tenant_id, changed)
            except BaseException:
                page.pending |= changed
                page.pending_since = min(since, page.pending_since)
                raise
            for gone in changed - {column.asset_id for column in columns}:
                page.book.remove(gone)
            for column in columns:
                page.book.put(column)

    def _forget_unused(self) -> None:
        now = time.monotonic()
        self._pages = {
            tenant: page for tenant, page in self._pages.items() if now - page.asked_at < _UNUSED_SECONDS
        }

    def _hear(self, told: Sequence[Heard]) -> None:
        for heard in told:
            page = self._pages.get(heard.change.tenant_id)
            if page is not None and heard.change.subject is not None and _matters(heard):
                page.pending.add(heard.change.subject)
                page.pending_since = min(page.pending_since, time.monotonic())
                self._wake.set()

    def _hear_of_rules(self, announcement: Announcement | None) -> None:
        if announcement is None:
            self._pages.clear()
        elif announcement.kind == PROTECTION and announcement.tenant_id in self._pages:
            self._pages[announcement.tenant_id].changes_heard += 1
            self._wake.set()


def _matters(heard: Heard) -> bool:
    change = heard.change
    if change.kind is ChangeKind.ASSET:
        return change.outcome != "updated" or not _LOOKED_AT.isdisjoint(change.data.get("changed") or ())
    return change.kind is ChangeKind.TAGS


def _stale(what: str) -> Unavailable:
    return Unavailable(f"{what} cannot be confirmed, so nothing is allowed; try again", part="protection")
