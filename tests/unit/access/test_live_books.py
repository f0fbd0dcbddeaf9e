"""Rules that change while they are relied on: nobody is refused for it, and nobody is answered by the old."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from lily.access.calls import Call
from lily.access.decision_points import Access
from lily.access.decisions import Action, Resource
from lily.access.live_books import RULES, LiveBooks
from lily.access.notebooks import Draft, Notebook
from lily.access.origins import Origin
from lily.access.principals import Principal
from lily.access.requests import Preference
from lily.domain.conditions import Circumstances
from lily.domain.errors import Unavailable
from lily.domain.policies import AccessType, Effect, Grantee, GranteeKind, Policy, Rules, Scope, ScopeKind
from lily.repositories.postgres.announcements import Announcement

ADA = Principal("acme", "ada", frozenset({"viewer"}))
FORBIDDEN = Policy(
    "00000000-0000-0000-0000-000000000001",
    Grantee(GranteeKind.USER, "ada"),
    AccessType.READ,
    Effect.FORBID,
    Scope(ScopeKind.CONTAINED, "sales"),
)


class Directory:
    """The rules as they are stored, and who is told when they change."""

    def __init__(self) -> None:
        self.rules = Rules()
        self.looks = 0
        self.lapses_at: set[int] = set()
        self._hear: Callable[[Announcement | None], None] = lambda _: None

    def subscribe(self, hear: Callable[[Announcement | None], None]) -> None:
        self._hear = hear

    def is_current(self) -> bool:
        self.looks += 1
        if self.looks in self.lapses_at:
            self.change(Rules())
            return False
        return True

    async def load_rules(self, _tenant_id: str) -> Rules:
        await asyncio.sleep(0)
        return self.rules

    def change(self, rules: Rules) -> None:
        self.rules = rules
        self._hear(Announcement(RULES, "acme", "some"))


@pytest.fixture
def directory() -> Directory:
    return Directory()


@pytest.fixture
def access(directory: Directory) -> Access:
    return Access(LiveBooks(cast(Any, directory), cast(Any, directory)))


@pytest.mark.parametrize("lapses_at", [1, 2])
def test_rules_that_change_while_the_lease_is_waited_for_are_read_again(
    directory: Directory, access: Access, lapses_at: int
) -> None:
    directory.lapses_at = {lapses_at}

    async def ask() -> bool:
        await access.refresh("acme")
        return access.decide(ADA, Action.READ, Resource("acme", id="orders")).allowed

    assert asyncio.run(ask())


def test_what_was_looked_up_for_rules_that_have_changed_is_looked_up_again(
    directory: Directory, access: Access
) -> None:
    attempts = []

    async def attempt(steady: Access) -> bool:
        """Containers are looked up only where rules look at them, as `AssetGuard` does."""
        inside = frozenset({"sales"}) if steady.sees_containers(ADA, Action.READ) else frozenset[str]()
        if not attempts:
            directory.change(Rules(policies=(FORBIDDEN,)))
        attempts.append(inside)
        return steady.decide(ADA, Action.READ, Resource("acme", id="orders", containers=inside)).allowed

    assert not asyncio.run(access.settle("acme", attempt))
    assert attempts == [frozenset(), frozenset({"sales"})]


def test_of_an_attempt_that_is_made_again_nothing_is_in_the_audit(
    directory: Directory, access: Access
) -> None:
    trail = Draft()
    notebook = Notebook(trail, ADA, Origin("127.0.0.1", "a trace"))
    call = Call(ADA, Preference(False, None), "", access, Circumstances(datetime.now(UTC)), notebook)

    async def attempt(call: Call) -> bool:
        if not directory.rules.policies:
            directory.change(Rules(policies=(FORBIDDEN,)))
        resource = Resource("acme", id="orders", tags=frozenset({"pii"}), containers=frozenset({"sales"}))
        decision = call.access.decide(ADA, Action.READ, resource, call.circumstances)
        call.notebook.note(Action.READ, resource, decision)
        return decision.allowed

    assert not asyncio.run(call.settle(attempt))
    assert [entry.allowed for entry in trail.entries] == [False]
    assert notebook.has_denial


def test_rules_that_never_rest_are_said_to_be_unknown(directory: Directory, access: Access) -> None:
    async def attempt(steady: Access) -> bool:
        directory.change(Rules())
        return steady.decide(ADA, Action.READ, Resource("acme")).allowed

    with pytest.raises(Unavailable, match="change faster"):
        asyncio.run(access.settle("acme", attempt))
