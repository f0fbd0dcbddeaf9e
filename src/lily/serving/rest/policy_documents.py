"""Policies, roles and scraper policies as callers write and read them."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import Field

from lily.domain.conditions import read_conditions
from lily.domain.errors import InvalidInput
from lily.domain.policies import (
    AccessType,
    Effect,
    Grantee,
    GranteeKind,
    Policy,
    Role,
    Scope,
    ScopeKind,
    ScraperPolicy,
)
from lily.repositories.postgres.policies import StoredPolicy, StoredRole, StoredScraperPolicy
from lily.serving.rest.bodies import Body

Name = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
AssetName = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f]+$")]

_CONDITIONS = """When the policy applies: `time` (windows: zone, days, from, until, not_before, not_after),
`network` (`in`, `not_in`: networks), `purpose` (declared in the header Lily-Purpose). All must hold."""


class PolicyBody(Body):
    """One rule: who (one of user_id, role and group) may, or must not, do what to which assets."""

    user_id: Name | None = None
    role: Name | None = None
    group: Name | None = None
    access_type: Literal["READ", "WRITE", "DELETE"]
    effect: Literal["allow", "forbid"] = "allow"
    scope: Literal["asset", "contained", "tag", "type", "source", "all"] = "asset"
    asset_id: AssetName | None = Field(None, description="For the scopes asset and contained.")
    value: AssetName | None = Field(None, description="The tag, type or source of the other scopes.")
    conditions: dict[str, Any] = Field(default_factory=dict, description=_CONDITIONS)

    def policy(self, policy_id: str = "") -> Policy:
        """The policy, checked as a whole; a new id unless one is given."""
        return Policy(
            policy_id=policy_id or str(uuid4()),
            grantee=self._grantee(),
            access_type=AccessType(self.access_type),
            effect=Effect(self.effect),
            scope=self._scope(),
            conditions=read_conditions(self.conditions),
        )

    def _grantee(self) -> Grantee:
        named = {
            GranteeKind.USER: self.user_id,
            GranteeKind.ROLE: self.role,
            GranteeKind.GROUP: self.group,
        }
        given = [Grantee(kind, name) for kind, name in named.items() if name is not None]
        if len(given) != 1:
            raise _invalid("", "name exactly one of user_id, role and group")
        return given[0]

    def _scope(self) -> Scope:
        kind = ScopeKind(self.scope)
        wanted = {"asset": "asset_id", "contained": "asset_id", "all": None}.get(self.scope, "value")
        given = {"asset_id": self.asset_id, "value": self.value}
        for name, text in given.items():
            if (text is not None) != (name == wanted):
                must = "is required" if name == wanted else "must be left out"
                raise _invalid(f"/{name}", f"{must} with the scope {self.scope!r}")
        return Scope(kind, given[wanted] or "" if wanted else "")


class RoleBody(Body):
    """A role: what it includes, and who has it."""

    description: str = Field("", max_length=1024)
    includes: list[Name] = Field(default_factory=list, max_length=64)
    users: list[Name] = Field(default_factory=list, max_length=10_000)
    groups: list[Name] = Field(default_factory=list, max_length=1000)

    def role(self, name: str) -> Role:
        return Role(name, frozenset(self.includes), frozenset(self.users), frozenset(self.groups))


class ScraperPolicyBody(Body):
    """The columns the scrapers of a group may touch: ids of columns, or of assets that contain them."""

    allowed_columns: list[AssetName] = Field(max_length=10_000)

    def scraper_policy(self, group: str) -> ScraperPolicy:
        return ScraperPolicy(group, frozenset(self.allowed_columns))


def policy_document(policy: Policy, conditions: dict[str, Any] | None = None) -> dict[str, Any]:
    """A policy as it was written."""
    about_asset = policy.scope.kind in (ScopeKind.ASSET, ScopeKind.CONTAINED)
    of = {kind: policy.grantee.name if policy.grantee.kind is kind else None for kind in GranteeKind}
    return {
        "policy_id": policy.policy_id,
        "user_id": of[GranteeKind.USER],
        "role": of[GranteeKind.ROLE],
        "group": of[GranteeKind.GROUP],
        "access_type": policy.access_type.value,
        "effect": policy.effect.value,
        "scope": policy.scope.kind.value,
        "asset_id": policy.scope.value if about_asset else None,
        "value": None if about_asset else policy.scope.value or None,
    } | ({} if conditions is None else {"conditions": conditions})


def stored_policy_document(stored: StoredPolicy) -> dict[str, Any]:
    return policy_document(stored.policy, stored.conditions) | {
        "created_by": stored.created_by,
        "created_at": stored.created_at,
        "updated_at": stored.updated_at,
    }


def role_document(stored: StoredRole) -> dict[str, Any]:
    return {
        "role": stored.role.name,
        "description": stored.description,
        "includes": sorted(stored.role.includes),
        "users": sorted(stored.role.users),
        "groups": sorted(stored.role.groups),
        "created_at": stored.created_at,
        "updated_at": stored.updated_at,
    }


def scraper_policy_document(stored: StoredScraperPolicy) -> dict[str, Any]:
    return {
        "policy_id": stored.policy_id,
        "scraper_group": stored.scraper_policy.scraper_group,
        "allowed_columns": sorted(stored.scraper_policy.allowed_columns),
        "created_at": stored.created_at,
        "updated_at": stored.updated_at,
    }


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput(f"{pointer or '/'}: {detail}", errors=[{"pointer": pointer, "detail": detail}])
