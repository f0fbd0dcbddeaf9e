"""How answers about protection look, for OpenAPI: rules, columns, and what is done in databases."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

#: As it is written: a kind, and what this kind says.
MaskDocument = dict[str, Any]


class RuleDocument(BaseModel):
    rule_id: str
    tag: str
    scope: str
    asset_id: str | None
    value: str | None
    includes_contained: bool
    effect: str
    mask: MaskDocument
    masks_by_type: dict[str, MaskDocument]
    except_roles: list[str]
    except_groups: list[str]
    description: str
    created_by: str
    created_at: datetime
    updated_at: datetime


class RuleList(BaseModel):
    rules: list[RuleDocument]


class ColumnProtection(BaseModel):
    """`mask` is null where the column is denied."""

    rule_id: str
    effect: str
    mask: MaskDocument | None
    except_roles: list[str]
    except_groups: list[str]


class ProtectedColumn(BaseModel):
    asset_id: str
    data_type: str
    protections: list[ColumnProtection]


class ProtectedColumns(BaseModel):
    asset_id: str
    columns: list[ProtectedColumn]


class PlannedRelation(BaseModel):
    """`error` says what fails when the statements are tried."""

    relation: str
    columns: dict[str, Any]
    statements: list[str]
    undo: list[str]
    error: str | None


class EnforcementPlan(BaseModel):
    connector_id: str
    database: str
    problems: list[str]
    relations: list[PlannedRelation]


class EnforcementRequest(BaseModel):
    """With what came of it, once it is done."""

    model_config = ConfigDict(extra="allow")

    connector_id: str
    request_id: str


class EnforcedDatabase(BaseModel):
    """With what is in the way, if anything is."""

    model_config = ConfigDict(extra="allow")

    connector_id: str
    state: str
    checked_at: datetime | None


class EnforcedDatabases(BaseModel):
    targets: list[EnforcedDatabase]


class EnforcedRelation(BaseModel):
    relation: str
    state: str
    columns: dict[str, Any]
    detail: str
    since: datetime


class SpokenStatement(BaseModel):
    """`is_meanwhile`: denies what cannot be masked yet. `is_said`: carried out; null while nobody knows."""

    relation: str
    statement: str
    is_undo: bool
    is_meanwhile: bool
    is_said: bool | None


class SettledPlan(BaseModel):
    plan_id: str
    reason: str
    state: str
    detail: dict[str, Any] | None
    planned_at: datetime
    settled_at: datetime | None
    statements: list[SpokenStatement]


class EnforcedDatabaseDetail(EnforcedDatabase):
    relations: list[EnforcedRelation]
    plans: list[SettledPlan]
