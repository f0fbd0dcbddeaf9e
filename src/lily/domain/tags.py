"""Tags: who may assert them, and how a tag spreads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Asserter(StrEnum):
    """Who says that an asset has a tag; each keeps its own word."""

    USER = "user"
    SOURCE = "source"
    CLASSIFIER = "classifier"


@dataclass(frozen=True, slots=True)
class TagRule:
    """How a tag spreads (functions/lineage.sql, tag_rule)."""

    lineage: bool = False
    containment: bool = False
    indirect: bool = False
    stopped_by_masking: bool = True


#: Known from the start: they go along direct lineage until they are masked.
BUILT_IN = {"PII": TagRule(lineage=True), "GDPR": TagRule(lineage=True)}
