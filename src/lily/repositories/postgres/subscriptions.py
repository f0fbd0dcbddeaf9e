"""Subscriptions as PostgreSQL keeps them; every change announces itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from lily.domain.key_roles import roles_of_key
from lily.domain.subscriptions import Selection, Subscription, Target, Template
from lily.repositories.postgres.pool import Database, Row
from lily.repositories.postgres.queries import load

_QUERIES = load("subscriptions.sql")
ANNOUNCED = "subscriptions"
#: Subscriptions of one person.
MOST_OF_ONE = 1000
_SELECTORS = tuple(each.name for each in fields(Selection))


@dataclass(frozen=True, slots=True)
class Rights:
    """By whose rights a subscription tells: the owner's as they are now, or those of a key they made."""

    owner: str
    key_name: str | None
    scopes: Sequence[str] | None
    #: Of the credential that wrote it.
    roles: frozenset[str]
    owner_roles: frozenset[str]
    owner_groups: frozenset[str]
    #: Those of its owner that only the key knows of.
    key_groups: frozenset[str]
    #: When the key ends, in seconds since the epoch.
    expires: float | None


@dataclass(frozen=True, slots=True)
class Vouched:
    """What the credential that made a subscription has besides what the directory gives its owner."""

    roles: Sequence[str]
    groups: Sequence[str]
    scopes: Sequence[str] | None
    key_id: str | None


@dataclass(frozen=True, slots=True)
class StoredSubscription:
    subscription: Subscription
    created_at: datetime
    updated_at: datetime


class PostgresSubscriptions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, tenant_id: str) -> list[tuple[Subscription, Rights]]:
        """Every subscription that can tell something now."""
        rows = await self._database.fetch(_QUERIES["load_subscriptions"], {"tenant_id": tenant_id})
        return [(_subscription(tenant_id, row), _rights(row)) for row in rows]

    async def add(self, subscription: Subscription, vouched: Vouched) -> StoredSubscription | None:
        """The new one; None when its owner has too many already."""
        values = _columns(subscription, vouched) | {"owner": subscription.owner, "most": MOST_OF_ONE}
        rows = await self._database.fetch(_QUERIES["insert_subscription"], values)
        return _stored(subscription.tenant_id, rows[0]) if rows else None

    async def replace(self, subscription: Subscription, vouched: Vouched) -> StoredSubscription | None:
        """It is told from now on by the rights of the one who says so."""
        rows = await self._database.fetch(_QUERIES["update_subscription"], _columns(subscription, vouched))
        return _stored(subscription.tenant_id, rows[0]) if rows else None

    async def remove(self, tenant_id: str, subscription_id: str) -> bool:
        values = {"tenant_id": tenant_id, "subscription_id": subscription_id}
        return bool(await self._database.fetch(_QUERIES["delete_subscription"], values))

    async def find(self, tenant_id: str, subscription_id: str) -> StoredSubscription | None:
        found = await self._list(tenant_id, {"id": subscription_id, "limit": 1})
        return found[0] if found else None

    async def list(
        self, tenant_id: str, owner: str | None, after: str | None, limit: int
    ) -> Sequence[StoredSubscription]:
        """Those of one owner, or of all."""
        return await self._list(tenant_id, {"owner": owner, "after": after, "limit": limit})

    async def about(self, tenant_id: str, owner: str | None, asset_id: str) -> Sequence[StoredSubscription]:
        """Those that name an asset."""
        return await self._list(tenant_id, {"owner": owner, "asset_id": asset_id, "limit": 1000})

    async def _list(self, tenant_id: str, asked: dict[str, Any]) -> Sequence[StoredSubscription]:
        nothing = {"owner": None, "asset_id": None, "id": None, "after": None}
        values = nothing | asked | {"tenant_id": tenant_id}
        rows = await self._database.fetch(_QUERIES["list_subscriptions"], values)
        return [_stored(tenant_id, row) for row in rows]


def selection_document(selection: Selection) -> dict[str, list[str]]:
    """What is selected, without what selects everything."""
    named = {name: sorted(getattr(selection, name)) for name in _SELECTORS}
    return {name: values for name, values in named.items() if values}


def read_selection(document: Mapping[str, Sequence[str]]) -> Selection:
    return Selection(**{name: frozenset(document.get(name, ())) for name in _SELECTORS})


def _columns(subscription: Subscription, vouched: Vouched) -> dict[str, Any]:
    target = subscription.target
    return {
        "tenant_id": subscription.tenant_id,
        "subscription_id": subscription.subscription_id,
        "name": subscription.name,
        "selection": Jsonb(selection_document(subscription.selection)),
        "connector_id": target.connector_id if target else None,
        "options": Jsonb(dict(target.options) if target else {}),
        "title": subscription.template.title,
        "text": subscription.template.text,
        "is_disabled": subscription.is_disabled,
        "roles": list(vouched.roles),
        "groups": list(vouched.groups),
        "scopes": None if vouched.scopes is None else list(vouched.scopes),
        "key_id": vouched.key_id,
    }


def _subscription(tenant_id: str, row: Row) -> Subscription:
    subscription_id, name, owner, selection, connector_id, options, title, text, is_disabled = row[:9]
    return Subscription(
        tenant_id,
        subscription_id,
        name,
        owner,
        read_selection(selection),
        Target(connector_id, options) if connector_id is not None else None,
        Template(title, text),
        is_disabled,
    )


def _rights(row: Row) -> Rights:
    key_name, scopes, roles, owner_roles, owner_groups, key_groups, had, has, expires = row[11:20]
    if key_name is not None and has is not None:
        roles = roles_of_key(roles, had, has)
    return Rights(
        row[2],
        key_name,
        scopes,
        frozenset(roles),
        frozenset(owner_roles),
        frozenset(owner_groups),
        frozenset(key_groups),
        expires,
    )


def _stored(tenant_id: str, row: Row) -> StoredSubscription:
    return StoredSubscription(_subscription(tenant_id, row), row[9], row[10])
