"""What a reader of changes asks for, and which changes that is."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lily.access.decisions import Resource
from lily.domain.changes import Change, ChangeKind
from lily.serving.rest.bodies import Body

Text = Annotated[str, Field(min_length=1, max_length=512)]
_MOST = 1000


class Filters(Body):
    """All that is said must hold; of several values one is enough. Without any, everything matches."""

    changes: list[Text] = Field(
        default_factory=list,
        max_length=_MOST,
        description="`asset`, `tags`, `incident`, or `asset.created` …",
    )
    metadata_ids: list[Text] = Field(default_factory=list, max_length=_MOST)
    entity_types: list[Text] = Field(default_factory=list, max_length=_MOST)
    data_sources: list[Text] = Field(default_factory=list, max_length=_MOST)
    tags: list[Text] = Field(
        default_factory=list, max_length=_MOST, description="Tags the asset has, or has gained or lost."
    )
    severities: list[Text] = Field(default_factory=list, max_length=_MOST)

    def match(self, change: Change, resource: Resource) -> bool:
        touched = {*(change.data.get("added") or ()), *(change.data.get("removed") or ()), *resource.tags}
        return (
            _one_of(self.changes, {change.kind.value, change.name})
            and _one_of(self.metadata_ids, {change.subject or change.incident_id})
            and _one_of(self.entity_types, {entity_type_of(change, resource)})
            and _one_of(self.data_sources, {resource.data_source})
            and _one_of(self.tags, touched)
            and _one_of(self.severities, {severity_of(change)})
        )


class Subscribe(Body):
    """The first message of a reader, unless it wants everything; a later one replaces the filters."""

    type: Literal["subscribe"]
    filters: Filters = Filters()
    cursor: str | None = Field(None, max_length=8192, description="Go on after this one.")


def entity_type_of(change: Change, resource: Resource | None) -> str:
    if change.subject is None:
        return ChangeKind.INCIDENT.value
    told = (change.data.get("asset") or {}).get("asset_type")
    return str(told or (resource.asset_type if resource else ""))


def severity_of(change: Change) -> str:
    return str(change.incident.get("severity") or "info")


def _one_of(wanted: list[str], found: set[str]) -> bool:
    return not wanted or not found.isdisjoint(wanted)
