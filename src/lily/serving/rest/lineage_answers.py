"""How answers about lineage and tags look, for OpenAPI; edges and assets are put together as text."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field


class LineageNode(BaseModel):
    """An asset on the way; one that is not known is only the end of an edge."""

    asset_id: str
    asset_name: str | None
    asset_type: str | None
    asset_owner: str | None
    data_source: str | None
    is_deleted: bool
    is_known: bool
    tags: list[str]
    depth: int


class LineageEdge(BaseModel):
    """`valid_from` is told of edges as they are now, unless there are very many."""

    from_asset_id: str
    to_asset_id: str
    relationship_type: str
    transformation: dict[str, Any] | None
    blocked_tags: list[str]
    sources: list[str]
    asserted_at: datetime
    valid_from: datetime | None = None


class LineagePage(BaseModel):
    asset_id: str
    nodes: list[LineageNode]
    truncated: bool
    next_page_token: str
    relationships: list[LineageEdge]


class LineageImpact(BaseModel):
    asset_id: str
    total: int
    by_type: dict[str, int]
    by_owner: dict[str, int]
    by_tag: dict[str, int]
    truncated: bool
    assets: list[LineageNode]
    incidents: list[dict[str, Any]]


class LineagePaths(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    from_: str = Field(alias="from")
    to: str
    truncated: bool
    paths: list[list[LineageEdge]]


class LineageDiff(BaseModel):
    asset_id: str
    truncated: bool
    added: list[LineageEdge]
    removed: list[LineageEdge]


class TagAssertion(BaseModel):
    source: str
    at: datetime
    event_id: UUID
    actor: str | None
    evidence: dict[str, Any] | None


class TagStep(BaseModel):
    from_asset_id: str
    to_asset_id: str
    relationship_type: str


class TagOrigin(BaseModel):
    """Where a tag is asserted; `path` when it is asked for, from the origin on."""

    asset_id: str
    distance: int
    is_deleted: bool
    path: list[TagStep] = []


class TagInForce(BaseModel):
    tag: str
    is_asserted: bool
    is_propagated: bool
    since: datetime
    cause: UUID
    assertions: list[TagAssertion]
    origins: list[TagOrigin]
    origins_truncated: bool


class AssetClassification(BaseModel):
    asset_id: str
    tags: list[TagInForce]
    effective_tags: list[str]
    fields: list[TagInForce]
    opted_out_of: list[str]


class Propagation(BaseModel):
    lineage: bool
    containment: bool
    indirect: bool


class SpreadingRule(BaseModel):
    propagate: Propagation
    stopped_by_masking: bool


class TagHistoryEntry(BaseModel):
    at: datetime
    outcome: Literal["added", "removed"]
    cause: UUID
    reason: dict[str, Any]


class TagProof(BaseModel):
    """What is in force is explained as in a classification; what is not has its history."""

    asset_id: str
    tag: str
    is_effective: bool
    rule: SpreadingRule
    history: list[TagHistoryEntry]
    is_asserted: bool = False
    is_propagated: bool = False
    since: datetime | None = None
    cause: UUID | None = None
    assertions: list[TagAssertion] = []
    origins: list[TagOrigin] = []
    origins_truncated: bool = False


class DefinedTag(SpreadingRule):
    tag: str
    keep_when_deleted: bool
    description: str | None
    is_built_in: bool
    defined_at: datetime | None
    defined_by: str | None


class TagList(BaseModel):
    tags: list[DefinedTag]


class ClassificationPreview(BaseModel):
    """What is for readers of policies or rules is null for others."""

    asset_id: str
    remove: bool
    assets: int
    by_tag: dict[str, int]
    by_type: dict[str, int]
    by_owner: dict[str, int]
    truncated: bool
    policies: int | None
    protection_rules: int | None
    enforcement_points: int | None
