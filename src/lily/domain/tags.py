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


#: What else spreads once it is declared to: fields of an asset, each as a tag that starts so. The definition
#: of `@owner:*` is that of all owners.
SPREADING = ("@owner:", "@term:", "@retention:")

#: The name under which is said what holds for every tag.
EVERY_TAG = "*"

#: Known from the start: they go along direct lineage until they are masked.
BUILT_IN = {"PII": TagRule(lineage=True), "GDPR": TagRule(lineage=True)}
