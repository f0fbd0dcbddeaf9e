"""The asset: its fields, its lanes, its outcomes, and how its id is derived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntFlag, StrEnum
from typing import Any
from uuid import UUID, uuid5

_ASSET_NAMESPACE = UUID("6f1d7c0e-7d0b-5e0f-9a57-1c8b0f6a5b11")

#: Asset types that come by the million and may be eventually consistent.
LEAF_TYPES = frozenset({"column", "bi_field", "field"})


class Field(IntFlag):
    """The fields an event can speak about; each keeps the time of the latest event that did.

    The values are stored in PostgreSQL (`assets.fields`, `assets.clocks`): never renumber.
    """

    ASSET_NAME = 1
    ASSET_TYPE = 2
    ASSET_OWNER = 4
    DESCRIPTION = 8
    DATA_SOURCE = 16
    EXTERNAL_ID = 32
    BUSINESS_TERMS = 64
    SOURCE_TAGS = 128
    USER_TAGS = 256
    METADATA = 512
    IS_DELETED = 1024


ALL_FIELDS = Field(sum(Field))


class Lane(StrEnum):
    """The ways through the pipeline: structural assets prompt, leaf assets in bulk, and what is said about
    edges and tags."""

    STRUCTURAL = "structural"
    LEAF = "leaf"
    LINEAGE = "lineage"

    @classmethod
    def of(cls, asset_type: str) -> Lane:
        return cls.LEAF if asset_type in LEAF_TYPES else cls.STRUCTURAL


class Outcome(StrEnum):
    """What applying one event did to its asset."""

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"
    RESTORED = "restored"
    PURGED = "purged"
    UNCHANGED = "unchanged"  # it said what was already known
    SUPERSEDED = "superseded"  # something newer was already known; part of history only
    PENDING = "pending"  # it speaks of an asset whose creation has not arrived yet
    REFUSED = "refused"  # it expected another version


#: Outcomes after which a reader sees something else than before.
VISIBLE_CHANGES = frozenset(
    {Outcome.CREATED, Outcome.UPDATED, Outcome.DELETED, Outcome.RESTORED, Outcome.PURGED}
)


class TagOrigin(StrEnum):
    """Who asserts a tag; a source's tags are shown instead of a user's, and both are kept."""

    SOURCE = "source"
    USER = "user"


def derive_asset_id(data_source: str, external_id: str) -> str:
    """The id of an asset known only by its source's name for it: the same every time."""
    return str(uuid5(_ASSET_NAMESPACE, f"{data_source}\x1f{external_id}"))


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of an asset that access to it can depend on."""

    asset_id: str
    asset_type: str = ""
    data_source: str = ""
    owner: str = ""
    source_tags: frozenset[str] = frozenset()
    user_tags: frozenset[str] = frozenset()
    #: Tags it has for other reasons than its own events, such as those that came along lineage.
    further_tags: frozenset[str] = frozenset()
    is_deleted: bool = False

    @property
    def tags(self) -> frozenset[str]:
        """The tags that count: those shown, and those that came from elsewhere."""
        return (self.source_tags or self.user_tags) | self.further_tags

    def after(self, fields: Mapping[str, Any]) -> Traits:
        """The traits once an event has said this about the asset."""
        tags = frozenset(fields.get("tags") or ())
        says_tags, by_source = "tags" in fields, fields.get("tag_origin") == TagOrigin.SOURCE
        return Traits(
            asset_id=self.asset_id,
            asset_type=fields.get("asset_type", self.asset_type) or "",
            data_source=fields.get("data_source", self.data_source) or "",
            owner=fields.get("asset_owner", self.owner) or "",
            source_tags=tags if says_tags and by_source else self.source_tags,
            user_tags=tags if says_tags and not by_source else self.user_tags,
            further_tags=self.further_tags - self.source_tags - self.user_tags,
            is_deleted=bool(fields.get("is_deleted", self.is_deleted)),
        )
