"""How answers look, for OpenAPI; the answers themselves come from PostgreSQL as text."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from lily.access.routers import Responses


class TagAssertions(BaseModel):
    """Who asserts which tags; `tags` shows the source's if it has any, else the user's."""

    source: list[str]
    user: list[str]


class AssetDocument(BaseModel):
    """An asset as every interface shows it."""

    asset_id: str
    asset_name: str
    asset_type: str
    asset_owner: str | None
    description: str | None
    data_source: str | None
    external_id: str | None
    tenant_id: str
    tags: list[str]
    tag_assertions: TagAssertions
    business_terms: list[str]
    metadata: dict[str, Any]
    is_deleted: bool
    created_at: datetime
    updated_at: datetime
    version: int


class ShownAsset(AssetDocument):
    """An asset as it is now, with what came along lineage; as it was at another time, without."""

    effective_tags: list[str] = []
    effective_owners: list[str] = []
    effective_terms: list[str] = []
    effective_retention: list[str] = []


class AssetAnswer(ShownAsset):
    """An asset as it is now, with the open incidents on it and on what it comes from."""

    incidents: list[dict[str, Any]] = []
    affected_upstream: list[dict[str, Any]] = []


class HistoryEntry(BaseModel):
    version: int
    event_id: str
    event_time: datetime
    applied_at: datetime
    outcome: str
    actor: str
    changed: list[str]
    asset: AssetDocument | None


class AssetHistory(BaseModel):
    asset_id: str
    history: list[HistoryEntry]
    next_page_token: str


class AssetList(BaseModel):
    assets: list[ShownAsset]
    next_page_token: str


class EntityDocument(BaseModel):
    """An asset in the `entity_type`/`attributes` form."""

    metadata_id: str
    entity_type: str
    attributes: dict[str, Any]
    tenant_id: str
    created_at: datetime
    updated_at: datetime


class TenantLimits(BaseModel):
    """0 is without limit."""

    requests_per_second: int
    events_per_second: int
    max_assets: int
    max_bytes: int


class TenantUsage(BaseModel):
    assets: int
    bytes: int


class TenantConfig(BaseModel):
    """A tenant: where it lives, what it may use and does, and what it has set for itself."""

    tenant_id: str
    isolation: str
    cell: str
    state: str
    limits: TenantLimits
    usage: TenantUsage
    settings: dict[str, Any]
    version: int
    created_at: datetime
    updated_at: datetime


class TenantSource(BaseModel):
    """What a tenant has from one source; an empty name stands for assets of none."""

    data_source: str
    assets: int
    bytes: int
    last_event: datetime
    counted_at: datetime


class TenantSourceList(BaseModel):
    tenant_id: str
    sources: list[TenantSource]


class ProblemError(BaseModel):
    pointer: str
    detail: str


class Problem(BaseModel):
    """RFC 9457; `code` is stable, `errors` says where and what is allowed."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    trace_id: str
    errors: list[ProblemError] = []


ASSET_RESPONSES: Responses = {
    200: {"model": AssetAnswer | AssetHistory},
    304: {"description": "Not Modified"},
}
