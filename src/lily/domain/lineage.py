"""Lineage: the kinds of edges between assets, and the statements from which edges and tags are made."""

from __future__ import annotations

from enum import StrEnum

#: As a source: retracts what every source has said until then. As a blocked tag: every tag.
EVERYBODY = "*"

#: Where a statement made through Lily's own interfaces comes from unless it says otherwise.
API = "api"


class RelationshipType(StrEnum):
    """What an edge means; it leads downstream, from what is used or contains to what uses or is contained."""

    DERIVED_FROM = "derived-from"  # table → view
    USED_IN = "used-in"  # column → BI field
    CONTAINS = "contains"  # schema → table → column
    DEPENDS_ON = "depends-on"
    USES = "uses"


class Direction(StrEnum):
    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"
    BOTH = "both"


class Statement(StrEnum):
    """What a lineage event speaks about. Stored in `lineage_events.kind`: never rename."""

    EDGE = "edge"
    TAG = "tag"
    OPT_OUT = "opt_out"
    DEFINITION = "definition"
    INCIDENT = "incident"  # a step of one
