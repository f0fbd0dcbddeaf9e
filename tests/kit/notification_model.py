"""What notifications must come to, said as plainly as possible: one thing after the other."""

from __future__ import annotations

from dataclasses import dataclass, field

#: For what happens, by the state before: the state after. "*" is any state that is not named.
_AFTER = {
    "incident.opened": {"*": "new"},
    "incident.reopened": {"*": "new"},
    "incident.resolved": {"*": "resolved"},
    "incident.acknowledged": {"*": "acknowledged", "resolved": "resolved"},
    "other": {"*": "new", "acknowledged": "acknowledged"},
    "see": {"new": "seen"},
    "acknowledge": {"new": "acknowledged", "seen": "acknowledged"},
    "resolve": {"*": "resolved"},
}


@dataclass
class Expected:
    """One notification."""

    state: str = "new"
    causes: list[str] = field(default_factory=list)

    def goes_through(self, what: str) -> None:
        table = _AFTER[what if what in _AFTER else "other"]
        self.state = table.get(self.state) or table.get("*") or self.state


@dataclass
class NotificationModel:
    """Everything that was told to everybody."""

    told: set[tuple[str, str]] = field(default_factory=set)
    notifications: dict[tuple[str, str], Expected] = field(default_factory=dict)

    def tell(self, person: str, subscription: str, group: str, cause: str, change: str) -> bool:
        """Whether it was news to the subscription."""
        if (subscription, cause) in self.told:
            return False
        self.told.add((subscription, cause))
        notification = self.notifications.setdefault((person, group), Expected())
        if cause not in notification.causes:
            notification.causes.append(cause)
            notification.goes_through(change)
        return True

    def step(self, person: str, group: str, step: str) -> None:
        if (person, group) in self.notifications:
            self.notifications[person, group].goes_through(step)
