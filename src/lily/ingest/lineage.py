"""Edges and tags as callers write them, and the events they become."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, with_config
from pydantic_core import to_json
from typing_extensions import TypedDict

from lily.domain.assets import Lane
from lily.domain.errors import Forbidden, InvalidInput
from lily.domain.lineage import API
from lily.domain.tags import EVERY_TAG, SPREADING, Asserter
from lily.ingest.assertions import MAX_AHEAD, Arrival, Draft
from lily.ingest.assets import STRICT, AssetId, Label, Labels, Metadata, Moment, Text
from lily.log.envelope import EventType

MAX_RELATIONSHIPS = 1000
Fields = dict[str, Any]


@with_config(STRICT)
class Transformation(TypedDict, total=False):
    """How the downstream asset is made from the upstream one, in the words of OpenLineage."""

    type: Annotated[Literal["DIRECT", "INDIRECT"], Field(description="INDIRECT: a filter, a join, a sort.")]
    subtype: Annotated[str, Field(max_length=256)]
    masking: Annotated[bool, Field(description="The values are masked: stops tags that masking removes.")]
    description: Annotated[str, Field(max_length=4096)]


@with_config(STRICT)
class Relationship(TypedDict):
    """An edge: from upstream to downstream, from what contains to what is contained."""

    from_asset_id: AssetId
    to_asset_id: AssetId
    relationship_type: Literal["derived-from", "used-in", "contains", "depends-on", "uses"]
    source: NotRequired[Annotated[Text, Field(description="Who says so; `api` unless said.")]]
    blocked_tags: NotRequired[
        Annotated[Labels | None, Field(description="Tags that do not pass; `*` is every tag.")]
    ]
    transformation: NotRequired[Transformation | None]
    provenance: NotRequired[Annotated[Metadata | None, Field(description="The run, job or query behind it.")]]
    event_time: NotRequired[Annotated[Moment | None, Field(description="When this became true.")]]
    tenant_id: NotRequired[Annotated[Text | None, Field(description="If given, the tenant of the token.")]]
    from_tenant_id: NotRequired[Annotated[Text | None, Field(description="As tenant_id.")]]
    to_tenant_id: NotRequired[Annotated[Text | None, Field(description="As tenant_id.")]]


@with_config(STRICT)
class RelationshipBatch(TypedDict):
    """Up to 1,000 edges; all of them, or none, are accepted."""

    relationships: Annotated[list[Relationship], Field(min_length=0, max_length=MAX_RELATIONSHIPS)]


@with_config(STRICT)
class SqlText(TypedDict):
    """Statements to derive edges from. A table is the asset whose id is its qualified name in lower case."""

    sql: Annotated[str, Field(min_length=1, max_length=100_000)]
    dialect: NotRequired[Annotated[str, Field(max_length=64, description="As sqlglot names it: postgres …")]]
    default_schema: NotRequired[Annotated[str, Field(max_length=256)]]
    source: NotRequired[Text]


@with_config(STRICT)
class Classification(TypedDict):
    """Tags somebody asserts on an asset."""

    asset_id: AssetId
    tags: Annotated[Labels, Field(min_length=1)]
    source: NotRequired[Literal["user", "source", "classifier"]]
    evidence: NotRequired[Annotated[Metadata | None, Field(description="Why, as a classifier tells it.")]]
    event_time: NotRequired[Moment | None]
    tenant_id: NotRequired[Text | None]


@with_config(STRICT)
class Propagate(TypedDict, total=False):
    """Along which edges a tag goes."""

    lineage: bool
    containment: bool
    indirect: bool


@with_config(STRICT)
class TagDefinition(TypedDict, total=False):
    """How a tag spreads; what is left out is off, but masking stops a tag unless it says otherwise."""

    propagate: Propagate
    stopped_by_masking: bool
    keep_when_deleted: Annotated[
        bool,
        Field(description="Only of `*`: what a deleted asset was tagged with stays in force downstream."),
    ]
    description: Annotated[str, Field(max_length=4096)]


@with_config(STRICT)
class OptOut(TypedDict):
    """Tags that do not reach an asset over an edge."""

    tags: Annotated[list[Label], Field(min_length=1, max_length=256)]


def draft_edge(relationship: Fields, arrival: Arrival) -> Draft:
    """The event saying that there is this edge."""
    for name in ("tenant_id", "from_tenant_id", "to_tenant_id"):
        if relationship.get(name) not in (None, arrival.tenant_id):
            raise Forbidden(f"{name} is not the tenant of your token; an edge stays within one tenant")
    transformation = relationship.get("transformation") or {}
    said = {
        **_edge_key(relationship, arrival),
        "blocked_tags": relationship.get("blocked_tags") or [],
        "is_indirect": transformation.get("type") == "INDIRECT",
        "is_masking": bool(transformation.get("masking")),
        "subtype": transformation.get("subtype"),
        "description": transformation.get("description"),
        "provenance": relationship.get("provenance"),
    }
    return _draft(said["from_asset_id"], EventType.EDGE_ASSERTED, said)


def draft_edge_retraction(edge: Fields, arrival: Arrival) -> Draft:
    """The event saying that a source (`*`: everybody) no longer asserts this edge."""
    return _draft(edge["from_asset_id"], EventType.EDGE_RETRACTED, _edge_key(edge, arrival))


def _edge_key(edge: Fields, arrival: Arrival) -> Fields:
    return {
        "from_asset_id": edge["from_asset_id"],
        "to_asset_id": edge["to_asset_id"],
        "relationship_type": edge["relationship_type"],
        "source": edge.get("source") or API,
        "event_time": event_time(edge, arrival),
    }


def draft_tags(said: Fields, arrival: Arrival, *, holds: bool = True) -> Draft:
    """The event saying that somebody asserts these tags on an asset, or no longer does."""
    if said.get("tenant_id") not in (None, arrival.tenant_id):
        raise Forbidden("tenant_id is not the tenant of your token; leave it out or ask for another token")
    if reserved := [tag for tag in said["tags"] if tag.startswith(SPREADING)]:
        raise _invalid("/tags", f"{reserved[0]!r} follows from a field of the asset; change that instead")
    data = {
        "asset_id": said["asset_id"],
        "tags": said["tags"],
        "source": said.get("source") or Asserter.USER.value,
        "evidence": said.get("evidence"),
        "event_time": event_time(said, arrival),
    }
    event_type = EventType.TAGS_ASSERTED if holds else EventType.TAGS_RETRACTED
    return _draft(said["asset_id"], event_type, data)


def draft_opt_out(asset_id: str, tags: list[str], arrival: Arrival, *, holds: bool) -> Draft:
    """The event saying that these tags do not reach this asset, or do again."""
    data = {"asset_id": asset_id, "tags": tags, "source": Asserter.USER.value, "event_time": arrival.time}
    return _draft(asset_id, EventType.TAGS_DECLINED if holds else EventType.TAGS_ADMITTED, data)


def draft_definition(tag: str, definition: Fields | None, arrival: Arrival) -> Draft:
    """The event saying how a tag spreads from now on; None forgets its definition."""
    said = definition or {}
    propagate = said.get("propagate") or {}
    if "keep_when_deleted" in said and tag != EVERY_TAG:
        raise _invalid("/keep_when_deleted", f"can be said of all tags only: PUT the tag {EVERY_TAG!r}")
    if tag.startswith(SPREADING) and tag.removesuffix("*") not in SPREADING:
        raise _invalid("/tag", f"is defined for all of its kind: PUT the tag '{tag.partition(':')[0]}:*'")
    data = {
        "tags": [tag],
        "source": Asserter.USER.value,
        "event_time": arrival.time,
        "lineage": bool(propagate.get("lineage")),
        "containment": bool(propagate.get("containment")),
        "indirect": bool(propagate.get("indirect")),
        "stopped_by_masking": bool(said.get("stopped_by_masking", True)),
        "keep_when_deleted": said.get("keep_when_deleted"),
        "description": said.get("description"),
    }
    event_type = EventType.TAG_DEFINED if definition is not None else EventType.TAG_UNDEFINED
    # All statements about definitions in one partition: their order is that of their tag.
    return _draft(f"tag:{tag}", event_type, data)


def event_time(said: Fields, arrival: Arrival) -> datetime:
    moment: datetime = said.get("event_time") or arrival.time
    if moment > arrival.time + MAX_AHEAD:
        detail = f"{moment.isoformat()} is more than 24 hours ahead of now; check the clock that wrote it"
        raise _invalid("/event_time", detail)
    return moment


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput(f"{pointer}: {detail}", errors=[{"pointer": pointer, "detail": detail}])


def _draft(subject: str, event_type: EventType, said: Fields) -> Draft:
    data = {name: value for name, value in said.items() if value is not None}
    return Draft(subject, Lane.LINEAGE, event_type, to_json(data))
