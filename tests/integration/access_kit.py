"""A small world of two tenants with assets, containment, history and rules, put in PostgreSQL directly."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_OID, uuid4, uuid5

import psycopg
from rest_kit import Gateway

from kit import access_strategies as some
from lily.access.decisions import Resource
from lily.access.principals import Principal
from lily.access.tokens import OwnToken, mint_session_token
from lily.domain.policies import Policy, Rules

BEFORE, NOW = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
#: Tags that no policy names: one is in force everywhere, the other nowhere; both go to what is contained.
GUARDED, FRESH = "guarded", "fresh"
_EMPTY = b"""
TRUNCATE assets, changes, edges, effective_tags, policies, roles, role_members, scraper_policies, sessions,
 users, groups, group_roles, subscriptions, notifications, notification_causes, incidents, deliveries,
 tag_definitions, protection_rules CASCADE
"""
_SCOPES = {
    None: None,
    frozenset({"read"}): ["lily:read"],
    frozenset({"write", "delete"}): ["lily:write"],
}


@dataclass(frozen=True)
class Version:
    """An asset as it was from some time on; its name tells tenant, asset and version."""

    name: str
    resource: Resource


@dataclass(frozen=True)
class World:
    """Every asset as it was and as it is."""

    before: dict[tuple[str, str], Version]
    now: dict[tuple[str, str], Version]


def make_world(traits: Iterable[Resource], past: Iterable[Resource]) -> World:
    """One asset per id and tenant, with these traits in turn."""
    ids = [(tenant, asset_id) for tenant in some.TENANTS for asset_id in some.ASSETS]
    return World(
        before={key: _version(key, "before", each) for key, each in zip(ids, past, strict=False)},
        now={key: _version(key, "now", each) for key, each in zip(ids, traits, strict=False)},
    )


def _version(key: tuple[str, str], name: str, traits: Resource) -> Version:
    tenant, asset_id = key
    containers = some.containers_of(asset_id)
    return Version(
        f"{tenant}:{asset_id}@{name}", replace(traits, tenant_id=tenant, id=asset_id, containers=containers)
    )


def store(api: Gateway, world: World, rules: dict[str, Rules]) -> None:
    """Make the database exactly this, and wait until the gateway knows."""
    with psycopg.connect(api.settings.database.url.get_secret_value()) as connection:
        connection.execute(_EMPTY)
        for tenant in some.TENANTS:
            _store_rules(connection, tenant, rules[tenant])
            _store_edges(connection, tenant)
            _store_protection(connection, tenant)
        for number, (key, version) in enumerate(world.now.items()):
            _store_asset(connection, number, world.before[key], version)
            _store_told(connection, version)
    _let_know(api)


def emptied(api: Gateway) -> Gateway:
    """The gateway with no asset and no rule in its database."""
    with psycopg.connect(api.settings.database.url.get_secret_value()) as connection:
        connection.execute(_EMPTY)
    _let_know(api)
    return api


def _let_know(api: Gateway) -> None:
    """A change over REST is answered when all have heard of it and of what was before: make one, undo it."""
    for tenant in some.TENANTS:
        token, path = api.token(tenant=tenant), "/lily/v1/access/scraper-policies/nobody"
        for method, body in (("PUT", {"allowed_columns": []}), ("DELETE", None)):
            assert api.call(method, path, as_=token, json=body).is_success


def _store_asset(connection: psycopg.Connection, number: int, before: Version, now: Version) -> None:
    asset = now.resource
    # Every third asset has its tags from elsewhere: along lineage, not by its own events.
    inherited = number % 3 == 0
    row = _columns(now) | {
        "tenant_id": asset.tenant_id,
        "asset_id": asset.id,
        "created_at": BEFORE,
        "version": 2,
        "fields": 3,
        "clock_time": NOW,
        "clock_id": str(uuid4()),
    }
    _insert(connection, "assets", row | ({"user_tags": []} if inherited else {}))
    for version, moment, state in ((1, BEFORE, before), (2, NOW, now)):
        change = _columns(state) | {
            "lane": "structural",
            "tenant_id": asset.tenant_id,
            "asset_id": asset.id,
            "event_id": str(uuid4()),
            "event_time": moment,
            "outcome": "created" if version == 1 else "updated",
            "version": version,
            "fields": 3,
            "actor": "ada",
            "created_at": BEFORE,
            "updated_at": moment,
        }
        _insert(connection, "changes", change)
    for tag in (*(asset.tags if inherited else ()), GUARDED):
        fact = {"tenant_id": asset.tenant_id, "asset_id": asset.id, "tag": tag, "is_partial": False}
        asserted = tag == GUARDED and asset.id not in some.PARENTS
        more = {"is_asserted": asserted, "since": NOW, "cause": str(uuid4())}
        _insert(connection, "effective_tags", fact | more)


def _store_told(connection: psycopg.Connection, version: Version) -> None:
    """An open incident of the asset, and a message about it that was delivered."""
    asset = version.resource
    incident = {"tenant_id": asset.tenant_id, "incident_id": f"of {asset.id}", "asset_id": asset.id}
    told = {"clocks": "{}", "opened_at": NOW, "updated_at": NOW}
    _insert(connection, "incidents", incident | told | {"said": json.dumps({"title": version.name})})
    delivery = {"delivery_id": delivery_id(asset), "subscription_id": str(uuid4()), "cause": asset.id}
    where = {"connector_id": str(uuid4()), "options": "{}", "queue": asset.id, "group_key": asset.id}
    row = {"tenant_id": asset.tenant_id, "asset_id": asset.id, "message": "{}", "told_at": NOW}
    _insert(connection, "deliveries", row | delivery | where | {"status": "delivered"})


def delivery_id(asset: Resource) -> str:
    return str(uuid5(NAMESPACE_OID, f"{asset.tenant_id}:{asset.id}"))


def _store_protection(connection: psycopg.Connection, tenant: str) -> None:
    """Both tags go to what is contained, and columns with the one that is in force are protected."""
    ways = dict.fromkeys(("along_lineage", "along_indirect", "stopped_by_masking"), False)
    said = {"holds": True, "along_containment": True, "actor": "ada", "clock_time": NOW}
    for tag in (GUARDED, FRESH):
        named = {"tenant_id": tenant, "tag": tag, "clock_id": str(uuid4())}
        _insert(connection, "tag_definitions", named | said | ways)
    rule = {"tenant_id": tenant, "tag": GUARDED, "scope": "all", "value": "", "includes_contained": False}
    effect = {"effect": "mask", "mask": '{"kind": "null"}', "masks_by_type": "{}", "created_by": "ada"}
    _insert(connection, "protection_rules", rule | effect | {"except_roles": [], "except_groups": []})


def _columns(version: Version) -> dict[str, Any]:
    asset = version.resource
    return {
        "asset_name": version.name,
        "asset_type": asset.asset_type,
        "data_source": asset.data_source or None,
        "user_tags": sorted(asset.tags),
    }


def _store_edges(connection: psycopg.Connection, tenant: str) -> None:
    for asset_id, parents in some.PARENTS.items():
        for parent in parents:
            edge = {
                "tenant_id": tenant,
                "from_id": parent,
                "to_id": asset_id,
                "relationship_type": "contains",
            }
            _insert(connection, "edges", edge)


def _store_rules(connection: psycopg.Connection, tenant: str, rules: Rules) -> None:
    for policy in rules.policies:
        _insert(connection, "policies", _policy(tenant, policy))
    for role in rules.roles:
        _insert(
            connection, "roles", {"tenant_id": tenant, "role": role.name, "includes": sorted(role.includes)}
        )
        for kind, members in (("user", role.users), ("group", role.groups)):
            for member in members:
                row = {"tenant_id": tenant, "role": role.name, "kind": kind, "member": member}
                _insert(connection, "role_members", row)
    for each in rules.scraper_policies:
        columns = {"scraper_group": each.scraper_group, "allowed_columns": sorted(each.allowed_columns)}
        _insert(connection, "scraper_policies", {"tenant_id": tenant} | columns)


def _policy(tenant: str, policy: Policy) -> dict[str, Any]:
    column = {"user": "user_id", "role": "role", "group": "group_name"}[policy.grantee.kind]
    return {
        "tenant_id": tenant,
        "policy_id": policy.policy_id,
        column: policy.grantee.name,
        "access_type": policy.access_type.value,
        "effect": policy.effect.value,
        "scope": policy.scope.kind.value,
        "value": policy.scope.value,
        "conditions": json.dumps(some.WRITTEN[policy.conditions]),
        "created_by": "test",
    }


def _insert(connection: psycopg.Connection, table: str, row: dict[str, Any]) -> None:
    names, places = ", ".join(f'"{name}"' for name in row), ", ".join(["%s"] * len(row))
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})".encode(), list(row.values()))


def token_of(api: Gateway, who: Principal) -> str:
    """A session of somebody with exactly these roles, groups and scopes."""
    session_id = str(uuid4())
    row = {
        "tenant_id": who.tenant_id,
        "session_id": session_id,
        "subject": who.subject,
        "roles": sorted(who.roles),
        "groups": sorted(who.groups),
        "scopes": _SCOPES[who.scopes],
        "expires_at": datetime(2100, 1, 1, tzinfo=UTC),
    }
    api.insert("sessions", row)
    expires = datetime.now(UTC).timestamp() + 600
    token = OwnToken(who.tenant_id, who.subject, "", expires, session_id=session_id)
    return mint_session_token(api.settings.auth.secret.get_secret_value(), token)
