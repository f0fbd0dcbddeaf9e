"""Policies, roles and scraper policies as PostgreSQL keeps them; every change announces itself."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lily.domain.conditions import Conditions, read_conditions
from lily.domain.policies import (
    AccessType,
    Effect,
    Grantee,
    GranteeKind,
    Policy,
    Role,
    Rules,
    Scope,
    ScopeKind,
    ScraperPolicy,
)
from lily.repositories.postgres.pool import Database, Row
from lily.repositories.postgres.queries import load

_QUERIES = load("policies.sql")


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    policy: Policy
    conditions: dict[str, Any]
    created_by: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class StoredRole:
    role: Role
    description: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class StoredScraperPolicy:
    policy_id: str
    scraper_policy: ScraperPolicy
    created_at: datetime
    updated_at: datetime


class PostgresPolicies:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_rules(self, tenant_id: str) -> Rules:
        """All rules of a tenant as they are at one moment."""
        [row] = await self._database.fetch(_QUERIES["load_rules"], {"tenant_id": tenant_id})
        return _rules(*row)

    async def add(
        self, tenant_id: str, policy: Policy, conditions: dict[str, Any], actor: str
    ) -> StoredPolicy:
        values = _columns(tenant_id, policy, conditions) | {"actor": actor}
        [row] = await self._database.fetch(_QUERIES["insert_policy"], values)
        return _stored(row)

    async def replace(
        self, tenant_id: str, policy: Policy, conditions: dict[str, Any]
    ) -> StoredPolicy | None:
        rows = await self._database.fetch(_QUERIES["update_policy"], _columns(tenant_id, policy, conditions))
        return _stored(rows[0]) if rows else None

    async def remove(self, tenant_id: str, policy_id: str) -> bool:
        values = {"tenant_id": tenant_id, "policy_id": policy_id}
        return bool(await self._database.fetch(_QUERIES["delete_policy"], values))

    async def find(self, tenant_id: str, policy_ids: Sequence[str]) -> list[StoredPolicy]:
        values = {"tenant_id": tenant_id, "after": None, "ids": list(policy_ids), "limit": len(policy_ids)}
        return [_stored(row) for row in await self._database.fetch(_QUERIES["list_policies"], values)]

    async def list(self, tenant_id: str, after: str | None, limit: int) -> Sequence[StoredPolicy]:
        values = {"tenant_id": tenant_id, "after": after, "ids": None, "limit": limit}
        return [_stored(row) for row in await self._database.fetch(_QUERIES["list_policies"], values)]


class PostgresRoles:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, tenant_id: str, name: str | None = None) -> Sequence[StoredRole]:
        rows = await self._database.fetch(_QUERIES["list_roles"], {"tenant_id": tenant_id, "role": name})
        return [_stored_role(row) for row in rows]

    async def put(self, tenant_id: str, role: Role, description: str) -> None:
        """Make the role exactly this, its members included."""
        values = {
            "tenant_id": tenant_id,
            "role": role.name,
            "description": description,
            "includes": sorted(role.includes),
            "users": sorted(role.users),
            "groups": sorted(role.groups),
        }
        await self._database.fetch(_QUERIES["put_role"], values)

    async def remove(self, tenant_id: str, name: str) -> bool:
        return bool(
            await self._database.fetch(_QUERIES["delete_role"], {"tenant_id": tenant_id, "role": name})
        )


class PostgresScraperPolicies:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, tenant_id: str, group: str | None = None) -> Sequence[StoredScraperPolicy]:
        values = {"tenant_id": tenant_id, "scraper_group": group}
        rows = await self._database.fetch(_QUERIES["list_scraper_policies"], values)
        return [
            StoredScraperPolicy(row[0], ScraperPolicy(row[1], frozenset(row[2])), row[3], row[4])
            for row in rows
        ]

    async def put(self, tenant_id: str, policy: ScraperPolicy) -> None:
        values = {
            "tenant_id": tenant_id,
            "scraper_group": policy.scraper_group,
            "allowed_columns": sorted(policy.allowed_columns),
        }
        await self._database.fetch(_QUERIES["put_scraper_policy"], values)

    async def remove(self, tenant_id: str, group: str) -> bool:
        values = {"tenant_id": tenant_id, "scraper_group": group}
        return bool(await self._database.fetch(_QUERIES["delete_scraper_policy"], values))


def _rules(policies: list[Any], roles: list[Any], members: list[Any], scraper_policies: list[Any]) -> Rules:
    conditions: dict[str, Conditions] = {}
    of_role: dict[str, list[Any]] = defaultdict(list)
    for role, kind, member in members:
        of_role[role].append((kind, member))
    return Rules(
        policies=tuple(_policy(*values, known=conditions) for values in policies),
        roles=tuple(_role(name, includes, of_role[name]) for name, includes in roles),
        scraper_policies=tuple(
            ScraperPolicy(group, frozenset(columns)) for group, columns in scraper_policies
        ),
    )


def _policy(*values: Any, known: dict[str, Conditions] | None = None) -> Policy:
    policy_id, user, role, group, access_type, effect, scope, value, conditions = values
    return Policy(
        policy_id=policy_id,
        grantee=_grantee(user, role, group),
        access_type=AccessType(access_type),
        effect=Effect(effect),
        scope=Scope(ScopeKind(scope), value),
        conditions=_conditions(conditions, {} if known is None else known),
    )


def _conditions(document: dict[str, Any], known: dict[str, Conditions]) -> Conditions:
    """Read once however many policies say the same."""
    text = json.dumps(document, sort_keys=True)
    if text not in known:
        known[text] = read_conditions(document)
    return known[text]


def _grantee(user: str | None, role: str | None, group: str | None) -> Grantee:
    if user is not None:
        return Grantee(GranteeKind.USER, user)
    return Grantee(GranteeKind.ROLE, role) if role is not None else Grantee(GranteeKind.GROUP, group or "")


def _role(name: str, includes: list[str], members: list[tuple[str, str]]) -> Role:
    users, groups = (
        frozenset(member for kind, member in members if kind == wanted) for wanted in ("user", "group")
    )
    return Role(name, frozenset(includes), users, groups)


def _columns(tenant_id: str, policy: Policy, conditions: dict[str, Any]) -> dict[str, Any]:
    grantee, names = policy.grantee, {"user": "user_id", "role": "role", "group": "group_name"}
    return {
        "tenant_id": tenant_id,
        "policy_id": policy.policy_id,
        **{column: grantee.name if grantee.kind == kind else None for kind, column in names.items()},
        "access_type": policy.access_type.value,
        "effect": policy.effect.value,
        "scope": policy.scope.kind.value,
        "value": policy.scope.value,
        "conditions": json.dumps(conditions),
    }


def _stored(row: Row) -> StoredPolicy:
    return StoredPolicy(_policy(*row[:9]), row[8], row[9], row[10], row[11])


def _stored_role(row: Row) -> StoredRole:
    name, description, includes, users, groups, created_at, updated_at = row
    role = Role(name, frozenset(includes), frozenset(users), frozenset(groups))
    return StoredRole(role, description, created_at, updated_at)
