"""Subscriptions: what somebody wants to be told, where, in which words; and which changes that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lily.domain.assets import Traits
from lily.domain.changes import Change, ChangeKind
from lily.domain.messages import Message

#: Every change a subscription can name; the part before the dot alone means all of that kind.
CHANGES: dict[ChangeKind, tuple[str, ...]] = {
    ChangeKind.ASSET: ("created", "updated", "deleted", "restored", "purged"),
    ChangeKind.TAGS: ("changed",),
    ChangeKind.INCIDENT: (
        "opened",
        "updated",
        "acknowledged",
        "assigned",
        "commented",
        "resolved",
        "reopened",
        "attached",
    ),
    ChangeKind.NOTIFICATION: ("requested",),
}
CHANGE_NAMES = frozenset(
    name for kind, outcomes in CHANGES.items() for name in (kind, *(f"{kind}.{each}" for each in outcomes))
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which changes: all that is named must hold; of each, one suffices. What is empty selects all."""

    changes: frozenset[str] = frozenset()
    assets: frozenset[str] = frozenset()
    severities: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()
    #: One of these, or something their lineage reaches downstream.
    downstream_of: frozenset[str] = frozenset()
    #: One of these, or something they depend on.
    upstream_of: frozenset[str] = frozenset()

    @property
    def follows_lineage(self) -> bool:
        return bool(self.downstream_of or self.upstream_of)

    def looks_at(self, change: Change) -> bool:
        """Whether the change as told may be one; what is known of its asset is still to be looked at."""
        named = not self.changes or change.name in self.changes or change.kind in self.changes
        there = not self.assets or change.subject in self.assets
        return named and there and (not self.severities or _severity(change) in self.severities)

    def covers(self, change: Change, asset: Traits) -> bool:
        """Whether the change is one, but for lineage, given what its asset is."""
        tags = asset.tags | set(change.data.get("added") or ()) | set(change.data.get("removed") or ())
        return (
            (not self.tags or not self.tags.isdisjoint(tags))
            and (not self.types or asset.asset_type in self.types)
            and (not self.owners or asset.owner in self.owners)
        )


@dataclass(frozen=True, slots=True)
class Template:
    """The words; None means Lily's own."""

    title: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Where it goes: a connector, with what that one wants to know (such as Slack's channel)."""

    connector_id: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Without a target it only makes notifications for its owner."""

    tenant_id: str
    subscription_id: str
    name: str
    owner: str
    selection: Selection = field(default_factory=Selection)
    target: Target | None = None
    template: Template = field(default_factory=Template)
    is_disabled: bool = False


@dataclass(frozen=True, slots=True)
class Match:
    """That a change is to be told by a subscription, and how.

    Subscription and `cause_key` together are told once, however often the change is read. `path` leads along
    lineage from the asset the subscription names to the one that changed, or the other way round.
    """

    subscription: Subscription
    change: Change
    cause_key: str
    message: Message
    path: tuple[str, ...] = ()


def group_of(change: Change) -> str:
    """What belongs together: everything about one incident, and everything of one cause."""
    if change.kind is ChangeKind.INCIDENT and change.incident_id:
        return f"incident:{change.incident_id}"
    return f"{change.kind}:{change.cause}"


def _severity(change: Change) -> str:
    return str(change.incident.get("severity") or change.data.get("severity") or "")
