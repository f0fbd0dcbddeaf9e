"""Masks: what is shown of a value instead of it, which of two shows less, and what fits a data type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from lily.domain.errors import InvalidInput

MOST_SHOWN = 16
LONGEST_CONSTANT = 256
#: Stands for what a partial mask hides, whatever its length.
HIDDEN = "*****"


class MaskKind(StrEnum):
    """How a value is hidden, the strictest first."""

    NULL = "null"
    CONSTANT = "constant"
    HASH = "hash"  # SHA-256 of the tenant's salt and the value: equal values stay equal
    DATE = "date"  # the beginning of its year, quarter, month or day
    PARTIAL = "partial"  # the first and last characters


class Family(StrEnum):
    """The data types of all engines, as far as masks tell them apart."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    OTHER = "other"


#: Units of truncation, the coarsest first.
UNITS = ("year", "quarter", "month", "day")


@dataclass(frozen=True, slots=True)
class Mask:
    kind: MaskKind = MaskKind.NULL
    value: str = ""
    unit: str = ""
    first: int = 0
    last: int = 0

    @property
    def strictness(self) -> tuple[int, int, int, str]:
        """The less of two shows less; different masks never tie."""
        shown = UNITS.index(self.unit) if self.kind is MaskKind.DATE else self.first + self.last
        return list(MaskKind).index(self.kind), shown, self.first, self.value

    def fitted(self, data_type: str) -> Mask:
        """This mask if its result is of the data type, else the one that shows nothing."""
        return self if _fits(self, data_type) else NULL


NULL = Mask()

_PRECISION = re.compile(r"\([^)]*\)")
_BITS = {
    "tinyint": 8,
    "smallint": 16,
    "int2": 16,
    "integer": 32,
    "int": 32,
    "int4": 32,
    "bigint": 64,
    "int8": 64,
}
_FAMILIES = {
    **dict.fromkeys(("text", "varchar", "character varying", "char", "character", "bpchar"), Family.TEXT),
    **dict.fromkeys(("string", "nvarchar", "citext"), Family.TEXT),
    **dict.fromkeys(_BITS, Family.INTEGER),
    **dict.fromkeys(("numeric", "decimal", "real", "double", "double precision", "float"), Family.NUMBER),
    **dict.fromkeys(("float4", "float8"), Family.NUMBER),
    **dict.fromkeys(("boolean", "bool"), Family.BOOLEAN),
    "date": Family.DATE,
    **dict.fromkeys(("timestamp", "timestamptz", "datetime"), Family.TIMESTAMP),
    **dict.fromkeys(("timestamp with time zone", "timestamp without time zone"), Family.TIMESTAMP),
}
_FITTING = {
    MaskKind.HASH: {Family.TEXT},
    MaskKind.PARTIAL: {Family.TEXT},
    MaskKind.DATE: {Family.DATE, Family.TIMESTAMP},
}


def family_of(data_type: str) -> Family:
    return _FAMILIES.get(_bare(data_type), Family.OTHER)


def _bare(data_type: str) -> str:
    return " ".join(_PRECISION.sub(" ", data_type).lower().split())


def _fits(mask: Mask, data_type: str) -> bool:
    family = family_of(data_type)
    if mask.kind is MaskKind.CONSTANT:
        return _is_of(mask.value, family, _BITS.get(_bare(data_type), 0))
    if mask.kind is MaskKind.DATE and family is Family.DATE and mask.unit == "day":
        return False  # it would show everything
    return mask.kind is MaskKind.NULL or family in _FITTING[mask.kind]


def _is_of(value: str, family: Family, bits: int) -> bool:
    """Whether a constant is a value of a family, as every engine writes it."""
    try:
        match family:
            case Family.TEXT:
                return True
            case Family.BOOLEAN:
                return value in ("true", "false")
            case Family.INTEGER:
                return value.isascii() and -(2 ** (bits - 1)) <= int(value) < 2 ** (bits - 1)
            case Family.NUMBER:
                return value.isascii() and Decimal(value).is_finite()
            case Family.DATE:
                return date.fromisoformat(value).isoformat() == value
            case Family.TIMESTAMP:
                return datetime.fromisoformat(value).strftime("%Y-%m-%d %H:%M:%S") == value
    except (ValueError, InvalidOperation):
        pass
    return False


_SAYS = {
    MaskKind.NULL: (),
    MaskKind.CONSTANT: ("value",),
    MaskKind.HASH: (),
    MaskKind.DATE: ("unit",),
    MaskKind.PARTIAL: ("first", "last"),
}


def read_mask(document: object, pointer: str = "/mask") -> Mask:
    """The mask a JSON document describes; `InvalidInput` says where and what is allowed."""
    if not isinstance(document, dict) or document.get("kind") not in list(MaskKind):
        raise _invalid(f"{pointer}/kind", f"must be one of {', '.join(MaskKind)}")
    kind = MaskKind(document["kind"])
    if unknown := sorted(set(document) - {"kind", *_SAYS[kind]}):
        raise _invalid(f"{pointer}/{unknown[0]}", f"a mask of the kind {kind} does not say this")
    mask = Mask(kind, **{name: document.get(name, default) for name, default in _defaults(kind).items()})
    if detail := _wrong(mask):
        raise _invalid(pointer, detail)
    return mask


def mask_document(mask: Mask) -> dict[str, Any]:
    """The mask as it was written."""
    return {"kind": mask.kind.value} | {name: getattr(mask, name) for name in _SAYS[mask.kind]}


def _defaults(kind: MaskKind) -> Mapping[str, Any]:
    return {name: getattr(NULL, name) for name in _SAYS[kind]}


def _wrong(mask: Mask) -> str:
    match mask.kind:
        case MaskKind.CONSTANT:
            if not isinstance(mask.value, str) or not 1 <= len(mask.value) <= LONGEST_CONSTANT:
                return f"value must be text of 1 to {LONGEST_CONSTANT} characters"
            return "" if mask.value.isprintable() else "value must be printable"
        case MaskKind.DATE:
            return "" if mask.unit in UNITS else f"unit must be one of {', '.join(UNITS)}"
        case MaskKind.PARTIAL:
            whole = all(type(shown) is int and shown >= 0 for shown in (mask.first, mask.last))
            if not whole or not 1 <= mask.first + mask.last <= MOST_SHOWN:
                return f"first and last must be whole numbers, together 1 to {MOST_SHOWN}"
    return ""


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput(f"{pointer}: {detail}", errors=[{"pointer": pointer, "detail": detail}])
