"""The one decision point: every interface asks here, and nothing is allowed that was not decided here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from lily.access.books import Book
from lily.access.decisions import (
    BEYOND_SCOPES,
    NO_POLICY_ALLOWS,
    OTHER_TENANT,
    Action,
    Decision,
    Resource,
)
from lily.access.predicates import NOTHING, Predicate, predicate_of
from lily.access.principals import Principal
from lily.domain.conditions import Circumstances
from lily.domain.errors import Unavailable

Asked = tuple[Principal, Action, Resource]
T = TypeVar("T")
_TRIES = 10


class Books(Protocol):
    """Where the rules of each tenant come from."""

    async def refresh(self, tenant_id: str) -> None:
        """Return when `current` can answer for this tenant; `Unavailable` when it cannot be known."""

    def current(self, tenant_id: str) -> Book:
        """The rules in force at this moment; `Unavailable` when that is not known, and nothing is allowed."""


class FixedBooks:
    """The same rules in every tenant, however long it takes."""

    def __init__(self, book: Book) -> None:
        self._book = book

    async def refresh(self, tenant_id: str) -> None:
        """There is nothing to wait for."""

    def current(self, tenant_id: str) -> Book:  # noqa: ARG002 - the same everywhere
        return self._book


class Access:
    """Decides; `refresh` first, unless that was just done."""

    def __init__(self, books: Books) -> None:
        self._books = books

    async def refresh(self, tenant_id: str) -> None:
        await self._books.refresh(tenant_id)

    async def settle(self, tenant_id: str, attempt: Callable[[Access], Awaitable[T]]) -> T:
        """What an attempt that has to look things up decides by rules in force from its beginning to its end.

        When they change meanwhile it decides anew: the new ones may ask for more than it looked up.
        """
        for _ in range(_TRIES):
            await self.refresh(tenant_id)
            book = self.book(tenant_id)
            settled = await attempt(Access(FixedBooks(book)))
            await self.refresh(tenant_id)
            if self.book(tenant_id) is book:
                return settled
        raise Unavailable(f"the rules of {tenant_id} change faster than they can be followed; try again")

    def decide(
        self,
        principal: Principal,
        action: Action,
        resource: Resource,
        circumstances: Circumstances | None = None,
    ) -> Decision:
        """Whether the principal may do this now, and which policies say so."""
        book = self._books.current(principal.tenant_id)
        return _decide(book, principal, action, resource, circumstances or Circumstances(datetime.now(UTC)))

    def decide_batch(
        self, tenant_id: str, asked: Iterable[Asked], circumstances: Circumstances | None = None
    ) -> list[Decision]:
        """One decision per principal, action and resource, all by the same rules of one tenant."""
        book, known = self._books.current(tenant_id), circumstances or Circumstances(datetime.now(UTC))
        return [
            _decide(book, principal, action, resource, known)
            if principal.tenant_id == tenant_id
            else OTHER_TENANT
            for principal, action, resource in asked
        ]

    def decide_for_all(
        self, principal: Principal, action: Action, circumstances: Circumstances
    ) -> Decision | None:
        """The decision about every asset, when it is the same for all of them; else None."""
        reach = self._books.current(principal.tenant_id).slice_of(principal).reaches[action]
        if not reach.is_uniform:
            return None
        return self.decide(principal, action, Resource(principal.tenant_id), circumstances)

    def may_ever(self, principal: Principal, action: Action) -> Decision:
        """Denied only when there is no asset the principal could do this to, whatever the circumstances."""
        if principal.scopes is not None and action.scope not in principal.scopes:
            return BEYOND_SCOPES
        reach = self._books.current(principal.tenant_id).slice_of(principal).reaches[action]
        return Decision(True, ()) if reach.can_allow else NO_POLICY_ALLOWS

    def predicate(self, principal: Principal, action: Action, circumstances: Circumstances) -> Predicate:
        """The assets the principal may do this to, as a condition for a list."""
        if principal.scopes is not None and action.scope not in principal.scopes:
            return NOTHING
        mine = self._books.current(principal.tenant_id).slice_of(principal)
        return predicate_of(mine, action, circumstances)

    def book(self, tenant_id: str) -> Book:
        """The rules in force."""
        return self._books.current(tenant_id)

    def sees_containers(self, principal: Principal, action: Action) -> bool:
        """Whether it matters to this principal in what an asset is contained."""
        mine = self._books.current(principal.tenant_id).slice_of(principal)
        return bool(mine.reaches[action].containers)


def _decide(
    book: Book, principal: Principal, action: Action, resource: Resource, known: Circumstances
) -> Decision:
    if resource.tenant_id != principal.tenant_id:
        return OTHER_TENANT
    if principal.scopes is not None and action.scope not in principal.scopes:
        return BEYOND_SCOPES
    mine = book.slice_of(principal)
    if action is Action.PURGE:  # whoever may not even hide it may not destroy it
        hiding = mine.decide(Action.DELETE, resource, known)
        if not hiding.allowed:
            return hiding
    return mine.decide(action, resource, known)
