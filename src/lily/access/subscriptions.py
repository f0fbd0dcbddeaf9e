"""Whose subscription it is: everybody has their own, and administrators see everybody's."""

from __future__ import annotations

from uuid import UUID

from lily.access.calls import Call
from lily.access.decisions import Action, Resource
from lily.domain.errors import Forbidden, NotFound
from lily.repositories.postgres.subscriptions import PostgresSubscriptions, StoredSubscription

KIND = "subscription"


async def find_subscription(
    subscriptions: PostgresSubscriptions, call: Call, subscription_id: UUID
) -> StoredSubscription:
    """The caller's own, or anybody's for administrators; `NotFound` otherwise."""
    found = await subscriptions.find(call.tenant_id, str(subscription_id))
    if found is not None and is_own(call, found):
        return found
    if found is not None and (await call.decide(Action.ADMINISTER, Resource(call.tenant_id, KIND))).allowed:
        return found
    if found is not None:
        call.notebook.write("read", (KIND, str(subscription_id)), False, "it is somebody else's")
    raise NotFound(f"you have no subscription {subscription_id}; GET /lily/v1/subscriptions lists yours")


def is_own(call: Call, stored: StoredSubscription) -> bool:
    return stored.subscription.owner.lower() == call.principal.person.lower()


def check_writes(call: Call) -> None:
    """`Forbidden` for a credential that is only good for reading."""
    scopes = call.principal.scopes
    if scopes is not None and Action.WRITE.scope not in scopes:
        raise Forbidden("this credential has no scope 'write'; use one that has", action=Action.WRITE.value)
