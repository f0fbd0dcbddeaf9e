"""How answers about rules and decisions look, for OpenAPI."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel


class PolicyOutline(BaseModel):
    """Whom a policy is about, what it is about and what it says; of the three names one is given."""

    policy_id: str
    user_id: str | None
    role: str | None
    group: str | None
    access_type: str
    effect: str
    scope: str
    asset_id: str | None
    value: str | None


class PolicyDocument(PolicyOutline):
    conditions: dict[str, Any]
    created_by: str
    created_at: datetime
    updated_at: datetime


class PolicyPage(BaseModel):
    policies: list[PolicyDocument]
    next_page_token: str


class AssetPolicies(BaseModel):
    asset_id: str
    policies: list[PolicyDocument]


class RoleDocument(BaseModel):
    role: str
    description: str
    includes: list[str]
    users: list[str]
    groups: list[str]
    created_at: datetime
    updated_at: datetime


class RoleList(BaseModel):
    roles: list[RoleDocument]
    default_roles: list[str]


class ScraperPolicyDocument(BaseModel):
    policy_id: str
    scraper_group: str
    allowed_columns: list[str]
    created_at: datetime
    updated_at: datetime


class ScraperPolicyList(BaseModel):
    scraper_policies: list[ScraperPolicyDocument]


class DecisionDocument(BaseModel):
    """`reasons` are for those who may read policies."""

    allowed: bool
    reasons: list[str] = []


class DecisionList(BaseModel):
    decisions: list[DecisionDocument]


class MatchedPolicy(PolicyOutline):
    applies: bool
    decided: bool


class ExplanationDocument(BaseModel):
    """`active` is null for somebody the directory does not know."""

    allowed: bool
    reasons: list[str]
    active: bool | None
    roles: list[str]
    groups: list[str]
    policies: list[MatchedPolicy]


class AffectedPrincipal(BaseModel):
    """A user, role or group; `scrapers` are those of a group."""

    kind: str
    name: str


class PlannedEffect(BaseModel):
    principals: list[AffectedPrincipal]
    access_type: str
    gains: int
    loses: int
    gained_examples: list[str]
    lost_examples: list[str]


class PlannedEffects(BaseModel):
    effects: list[PlannedEffect]
