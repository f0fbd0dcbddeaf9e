"""Notifications for people: which changes are one of them, and the states it goes through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from uuid import UUID, uuid5

from lily.domain.changes import Change, ChangeKind
from lily.domain.subscriptions import Match

_IDS = UUID("3c1d39d5-3f9b-4b8a-8f63-0c6d2f4f7a52")


class State(StrEnum):
    """In the order in which a person gets on with it."""

    NEW = "new"
    SEEN = "seen"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


_ORDER = list(State)
#: Steps of an incident that begin it anew, whatever was done about it before.
_BEGINNINGS = frozenset({"opened", "reopened"})


def notification_id(match: Match) -> str:
    """One per person and group: whatever subscription told it, and whoever counts it."""
    subscription = match.subscription
    return notification_of(subscription.tenant_id, subscription.owner, match.message.group_key)


def notification_of(tenant_id: str, person: str, group_key: str) -> str:
    """The id of a person's notification about a group."""
    parts = (tenant_id, person.lower(), group_key)
    return str(uuid5(_IDS, "".join(f"{len(part)}:{part}" for part in parts)))


def after_step(state: State, step: State) -> State:
    """The state after a person said they are so far; nobody gets on backwards."""
    return max(state, step, key=_ORDER.index)


def after_change(state: State, change: Change) -> State:
    """The state after one more change of its group.

    What an incident has come to, its notifications have come to, for everybody. Anything else that happens is
    new to who had only seen what was before, or was done with it; who acknowledged it is on it already.
    """
    if change.kind is ChangeKind.INCIDENT:
        if change.outcome in _BEGINNINGS:
            return State.NEW
        if change.outcome == "resolved" or change.incident.get("status") == "resolved":
            return State.RESOLVED
        if change.outcome == "acknowledged":
            return after_step(state, State.ACKNOWLEDGED)
    return state if state is State.ACKNOWLEDGED else State.NEW


def newest_of_groups(matches: Iterable[Match]) -> Sequence[Match]:
    """For a target that shows the newest message of a group in the place of the one before: of every
    subscription, group and kind of change the newest only, in order."""
    newest: dict[tuple[str, str, str, str], Match] = {}
    for match in matches:
        subscription = match.subscription
        key = (
            subscription.tenant_id,
            subscription.subscription_id,
            match.message.group_key,
            match.change.name,
        )
        newest.pop(key, None)
        newest[key] = match
    return list(newest.values())
