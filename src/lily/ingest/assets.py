"""The asset as callers write it: which fields there are and what each may hold.

The shapes are dictionaries, not objects: a key that is absent was not spoken about, a key that is null is
cleared, and that difference must reach the log.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NotRequired, Required

from pydantic import AfterValidator, ConfigDict, Field, with_config
from typing_extensions import TypedDict

MAX_BATCH_ASSETS = 1000
MAX_METADATA_BYTES = 256 * 1024
MAX_METADATA_DEPTH = 64


def _sorted_set(values: list[str]) -> list[str]:
    return sorted(set(values)) if len(values) > 1 else values


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("the time must be between the years 1 and 9999 in UTC") from None


AssetId = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f]*$")]
Text = Annotated[str, Field(min_length=1, max_length=1024)]
LongText = Annotated[str, Field(max_length=65_536)]
Label = Annotated[str, Field(min_length=1, max_length=256)]
Labels = Annotated[list[Label], Field(max_length=256), AfterValidator(_sorted_set)]
Moment = Annotated[
    datetime, AfterValidator(_in_utc), Field(description="RFC 3339; without an offset it is UTC.")
]
Metadata = Annotated[
    dict[str, Any],
    Field(description=f"Any JSON object up to {MAX_METADATA_BYTES:,} bytes and {MAX_METADATA_DEPTH} levels."),
]

STRICT = ConfigDict(extra="forbid", strict=True)


class _Described(TypedDict, total=False):
    """What all writes may say of an asset."""

    asset_owner: Text | None
    description: LongText | None
    data_source: Text | None
    external_id: Text | None
    tags: Annotated[Labels | None, Field(description="A set: sorted, duplicates removed.")]
    tag_origin: Annotated[
        Literal["source", "user"] | None, Field(description="Who asserts `tags`; `user` unless said.")
    ]
    business_terms: Labels | None
    metadata: Metadata | None
    is_deleted: Annotated[bool | None, Field(description="false restores a deleted asset.")]
    created_at: Moment | None
    event_time: Annotated[
        Moment | None, Field(description="When this became true; else `updated_at`, else arrival.")
    ]
    updated_at: Moment | None
    tenant_id: Annotated[Text | None, Field(description="If given, the tenant of the token.")]
    version: Annotated[int | None, Field(description="Ignored: read-only.")]
    tag_assertions: Annotated[Any, Field(description="Ignored: read-only.")]


@with_config(STRICT)
class AssetBody(_Described, total=False):
    """An asset to create or change: fields left out are not spoken about, null clears."""

    asset_id: Annotated[
        AssetId | None, Field(description="Derived from `data_source` and `external_id` when absent.")
    ]
    asset_name: Required[Text]
    asset_type: Required[Text]


@with_config(STRICT)
class AssetPatch(_Described, total=False):
    """A JSON merge patch of an asset (RFC 7396): `metadata` is merged, everything else replaced."""

    asset_id: AssetId | None
    asset_name: Text
    asset_type: Text


@with_config(STRICT)
class AssetBatch(TypedDict):
    """Up to 1,000 assets; valid ones are accepted although others are rejected."""

    assets: Annotated[list[AssetBody], Field(min_length=1, max_length=MAX_BATCH_ASSETS)]


@with_config(ConfigDict(extra="allow", strict=True))
class EntityAttributes(TypedDict, total=False):
    """What an entity says of itself; attributes not named here are kept as its metadata."""

    name: Text
    description: LongText | None
    created_by: Text | None
    tags: Labels | None


@with_config(STRICT)
class EntityBody(TypedDict):
    """A metadata entity in the `entity_type`/`attributes` form."""

    entity_type: Text
    attributes: EntityAttributes
    tenant_id: NotRequired[Text]


@with_config(STRICT)
class EntityUpdate(TypedDict):
    """New attributes of an entity; those left out stay."""

    attributes: EntityAttributes
    entity_type: NotRequired[Text]
    tenant_id: NotRequired[Text]
