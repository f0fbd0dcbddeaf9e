"""What a write would take from that which protects an asset: the tags of rules, and where the asset is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lily.domain.assets import TagOrigin

Fields = Mapping[str, Any]

_FIELDS = ("asset_type", "data_source", "external_id")
_IN_METADATA = ("connector_id", "data_type")
#: What a write must speak about to take anything from what protects an asset.
TELLING = frozenset({*_FIELDS, "metadata", "tags", "is_deleted", "asset_owner", "business_terms"})


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """By what enforcement finds the column of an asset, and which mask fits it."""

    asset_type: str = ""
    data_source: str = ""
    external_id: str = ""
    #: The connector that scraped it; enforcement believes it (`lily.targets.enforcement.wanted.is_of`).
    connector_id: str = ""
    data_type: str = ""

    def after(self, fields: Fields) -> Whereabouts:
        """Where it is once an event has said this."""
        said = {name: fields[name] or "" for name in _FIELDS if name in fields}
        if "metadata" in fields:
            metadata = fields["metadata"] or {}
            said |= {name: _text(metadata.get(name)) for name in _IN_METADATA}
        return replace(self, **said)


@dataclass(frozen=True, slots=True)
class ProtectedAsset:
    """An asset with the tags of rules it has, and those asserted on it: each with who asserts it."""

    asset_id: str
    place: Whereabouts = Whereabouts()
    is_deleted: bool = False
    tags: frozenset[str] = frozenset()
    assertions: frozenset[tuple[str, str]] = frozenset()

    def lost(self, fields: Fields) -> frozenset[str]:
        """The tags of rules it has no longer, or no longer by itself, once an event has said this."""
        before = {tag for tag, _ in self.assertions}
        if fields.get("is_deleted") and not self.is_deleted:
            return self.tags | before
        by_fields = {tag for tag in self.tags if _is_unsaid(tag, fields)}
        if "tags" not in fields:
            return frozenset(by_fields)
        said, by = set(fields["tags"] or ()), fields.get("tag_origin") or TagOrigin.USER
        after = {tag for tag, source in self.assertions if source != by or tag in said}
        return frozenset(by_fields | (before - after))


def _is_unsaid(tag: str, fields: Fields) -> bool:
    """Whether a tag that follows from a field of the asset would follow no more."""
    kind, _, value = tag.partition(":")
    match kind:
        case "@owner":
            return "asset_owner" in fields and fields["asset_owner"] != value
        case "@term":
            return "business_terms" in fields and value not in (fields["business_terms"] or ())
        case "@retention":
            return "metadata" in fields and (fields["metadata"] or {}).get("retention_class") != value
        case _:
            return False


def _text(value: object) -> str:
    """As PostgreSQL reads it with `->>`, as far as it matters whether it is the same."""
    return value if isinstance(value, str) else "" if value is None else repr(value)
