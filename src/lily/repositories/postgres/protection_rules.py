"""Protection rules as PostgreSQL keeps them; every change announces itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lily.domain.masks import Family, mask_document, read_mask
from lily.domain.policies import Scope, ScopeKind
from lily.domain.protection import Effect, Rule
from lily.repositories.postgres.pool import Database, Row
from lily.repositories.postgres.queries import load

#: The kind of announcement that tells of a change.
PROTECTION = "protection"
_QUERIES = load("protection.sql")


@dataclass(frozen=True, slots=True)
class StoredRule:
    rule: Rule
    description: str
    created_by: str
    created_at: datetime
    updated_at: datetime


class PostgresProtectionRules:
    """They live in the shared cell's database, as policies do."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, tenant_id: str, rule: Rule, description: str, actor: str) -> StoredRule:
        values = _columns(tenant_id, rule, description) | {"actor": actor}
        [row] = await self._database.fetch(_QUERIES["insert_rule"], values)
        return _stored(row)

    async def replace(self, tenant_id: str, rule: Rule, description: str) -> StoredRule | None:
        rows = await self._database.fetch(_QUERIES["update_rule"], _columns(tenant_id, rule, description))
        return _stored(rows[0]) if rows else None

    async def remove(self, tenant_id: str, rule_id: str) -> bool:
        values = {"tenant_id": tenant_id, "rule_id": rule_id}
        return bool(await self._database.fetch(_QUERIES["delete_rule"], values))

    async def find(self, tenant_id: str, rule_id: str) -> StoredRule | None:
        rows = await self._fetch(tenant_id, rule_id)
        return _stored(rows[0]) if rows else None

    async def list(self, tenant_id: str) -> Sequence[StoredRule]:
        return [_stored(row) for row in await self._fetch(tenant_id, None)]

    async def load(self, tenant_id: str) -> tuple[Rule, ...]:
        """All rules of a tenant as they are at one moment."""
        return tuple(stored.rule for stored in await self.list(tenant_id))

    async def _fetch(self, tenant_id: str, rule_id: str | None) -> Sequence[Row]:
        return await self._database.fetch(
            _QUERIES["list_rules"], {"tenant_id": tenant_id, "rule_id": rule_id}
        )


def _stored(row: Row) -> StoredRule:
    return StoredRule(_rule(*row[:10]), *row[10:])


def _rule(*values: Any) -> Rule:
    rule_id, tag, scope, value, includes_contained, effect, mask, by_type, roles, groups = values
    return Rule(
        rule_id=rule_id,
        tag=tag,
        scope=Scope(ScopeKind(scope), value),
        includes_contained=includes_contained,
        effect=Effect(effect),
        mask=read_mask(mask),
        masks_by_type={Family(family): read_mask(each) for family, each in by_type.items()},
        except_roles=frozenset(roles),
        except_groups=frozenset(groups),
    )


def _columns(tenant_id: str, rule: Rule, description: str) -> dict[str, Any]:
    by_type = {family.value: mask_document(mask) for family, mask in rule.masks_by_type.items()}
    return {
        "tenant_id": tenant_id,
        "rule_id": rule.rule_id,
        "description": description,
        "tag": rule.tag,
        "scope": rule.scope.kind.value,
        "value": rule.scope.value,
        "includes_contained": rule.includes_contained,
        "effect": rule.effect.value,
        "mask": json.dumps(mask_document(rule.mask)),
        "masks_by_type": json.dumps(by_type),
        "except_roles": sorted(rule.except_roles),
        "except_groups": sorted(rule.except_groups),
    }
