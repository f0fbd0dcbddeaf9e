"""What is known of the assets of a batch of changes, and who may see them."""

from __future__ import annotations

from collections.abc import Iterable

from lily.access.assets import resource_of, traits_of_document
from lily.access.decision_points import Access
from lily.access.decisions import Action, Resource
from lily.access.principals import Principal
from lily.domain.assets import Traits
from lily.domain.changes import Change, ChangeKind
from lily.domain.conditions import Circumstances
from lily.repositories.postgres.assets import KnownAsset
from lily.targets.subscribers import Subscriber

INCIDENT = "incident"


class Sights:
    """Of one tenant; every decision is the decision point's, by the rules in force."""

    def __init__(self, tenant_id: str, access: Access, circumstances: Circumstances) -> None:
        self.tenant_id = tenant_id
        #: Those there are; what was only spoken about, or was purged, is not.
        self.assets: dict[str, Traits] = {}
        self.looked: set[str] = set()
        self._access = access
        self._circumstances = circumstances
        self._known: dict[str, Traits] = {}
        self._inside: dict[str, frozenset[str]] = {}

    def add(
        self, looked: Iterable[str], known: dict[str, KnownAsset], inside: dict[str, frozenset[str]]
    ) -> None:
        self.looked.update(looked)
        self._known |= {asset_id: each.traits for asset_id, each in known.items()}
        self.assets |= {asset_id: each.traits for asset_id, each in known.items() if each.is_visible}
        self._inside |= inside

    def may(self, subscriber: Subscriber, change: Change) -> bool:
        """Whether the owner may see what the change is about, as it is and as it was told."""
        who = subscriber.principal
        if change.subject is None:
            return is_for(subscriber, change) or self._allows(
                who, Resource(self.tenant_id, INCIDENT, change.incident_id)
            )
        document = change.data.get("asset") if change.kind is ChangeKind.ASSET else None
        was = traits_of_document(document) if document else None
        return self._may_hear(who, change.subject) and (
            was is None or self._allows(who, resource_of(self.tenant_id, was, self._of(change.subject)))
        )

    def may_read(self, who: Principal, asset_id: str) -> bool:
        """About one that nobody knows the decision is on its id, as everywhere."""
        asset = self._known.get(asset_id) or Traits(asset_id)
        return self._allows(who, resource_of(self.tenant_id, asset, self._of(asset_id)))

    def origins(self, who: Principal, change: Change) -> tuple[str, ...]:
        """Where the tags of a change came from, as far as they may be seen."""
        named = sorted(origins_of(change) - {change.subject or ""})
        return tuple(asset_id for asset_id in named if self.may_read(who, asset_id))

    def _may_hear(self, who: Principal, asset_id: str) -> bool:
        """Of an asset that is gone, what would hide it is not known: only who may read everything hears."""
        if asset_id in self.assets:
            return self.may_read(who, asset_id)
        same = self._access.decide_for_all(who, Action.READ, self._circumstances)
        return same is not None and same.allowed

    def _of(self, asset_id: str) -> frozenset[str]:
        return self._inside.get(asset_id, frozenset())

    def _allows(self, who: Principal, resource: Resource) -> bool:
        return self._access.decide(who, Action.READ, resource, self._circumstances).allowed


def is_for(subscriber: Subscriber, change: Change) -> bool:
    """Whether somebody asked for it to be told by this very subscription."""
    return change.data.get("subscription_id") == subscriber.subscription.subscription_id


def origins_of(change: Change) -> set[str]:
    reasons = change.data.get("reasons") or {}
    return {str(why["origin"]) for why in reasons.values() if why.get("origin")}
