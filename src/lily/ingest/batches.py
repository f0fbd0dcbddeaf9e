"""Reads batches of assets that are as they must be, in two thirds of the time pydantic takes.

Its types are derived from those of `ingest/assets.py`: what it takes pydantic takes, as the same fields, and
what it refuses pydantic judges and explains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from types import UnionType
from typing import Annotated, Any, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, UNSET, DecodeError, Meta, UnsetType, defstruct, to_builtins
from msgspec.json import Decoder
from pydantic import AfterValidator
from pydantic.fields import FieldInfo

from lily.ingest.assets import AssetBatch, AssetBody
from lily.ingest.flaws import NUL, is_plain

Fields = dict[str, Any]
Convert = Callable[[Any], Any]

#: The forms of a time that all readers read alike.
_MOMENT = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
    r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])\Z"
)
_LIMITS = ("min_length", "max_length")
#: A pattern that fits texts in one piece if it fits each of them.
_EACH_CHARACTER = re.compile(r"\^(\[[^\]]*\]\*)\$")


def read_batch(body: bytes) -> list[Fields] | None:
    """The assets of a batch without flaws; None when pydantic has to look at it."""
    if NUL in body:
        return None
    try:
        assets: list[Fields] = to_builtins(_DECODER.decode(body).assets)  # without what is not set
        if not _is_right(assets):
            return None
        for name, convert in _CONVERSIONS:
            for asset in assets:
                if value := asset.get(name):
                    asset[name] = convert(value)
    except (DecodeError, ValueError, RecursionError):
        return None
    return assets


def _is_right(assets: list[Fields]) -> bool:
    """Whether the assets also have what types cannot ask for."""
    for name, fits in _PATTERNS:
        if not fits("".join([asset.get(name) or "" for asset in assets])):
            return False
    return all([is_plain(asset.get("metadata")) for asset in assets])  # noqa: C419 # a third faster so


def _derived(hint: Any) -> Any:
    """The type with its limits as msgspec takes them; times are texts."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is datetime:
        return Annotated[str, Meta(pattern=_MOMENT)]
    if origin in (Required, NotRequired):
        return _derived(arguments[0])
    if origin is Annotated:
        return _limited(_derived(arguments[0]), arguments[1:])
    if origin in (Union, UnionType):
        return Union[tuple(map(_derived, arguments))]  # noqa: UP007 # of types that are values
    if origin is list:
        return list[_derived(arguments[0])]  # type: ignore[misc] # of a type that is a value
    return hint


def _limited(kind: Any, marks: tuple[Any, ...]) -> Any:
    """The type with the limits that pydantic's marks set."""
    limits: dict[str, int] = {}
    for mark in (mark for field in marks if isinstance(field, FieldInfo) for mark in field.metadata):
        found = {name: getattr(mark, name) for name in _LIMITS if hasattr(mark, name)}
        if not found and getattr(mark, "pattern", None) is None:
            raise TypeError(f"{mark!r} has no counterpart here; give it one, or leave the field to pydantic")
        limits |= found
    if not limits:
        return kind
    return Annotated[kind, Meta(min_length=limits.get("min_length"), max_length=limits.get("max_length"))]


def _marks(hint: Any) -> Iterator[Any]:
    """Everything that is said of a type, outer things first."""
    if get_origin(hint) is Annotated:
        for mark in get_args(hint)[1:]:
            yield from mark.metadata if isinstance(mark, FieldInfo) else [mark]
    for argument in get_args(hint):
        yield from _marks(argument)


def _conversion(hint: Any) -> Convert | None:
    """What makes the field of the value, which pydantic does after its checks."""
    after: list[Any] = [mark.func for mark in _marks(hint) if isinstance(mark, AfterValidator)]
    if not after:
        return None
    (finish,) = after
    return (lambda text: finish(datetime.fromisoformat(text))) if _mentions(hint, datetime) else finish


def _mentions(hint: Any, kind: type) -> bool:
    return hint is kind or any(_mentions(argument, kind) for argument in get_args(hint))


def _pattern(hint: Any) -> Callable[[str], Any] | None:
    texts = [mark.pattern for mark in _marks(hint) if getattr(mark, "pattern", None)]
    if not texts:
        return None
    match = _EACH_CHARACTER.fullmatch(*texts)
    if match is None:
        raise TypeError(f"{texts} is not about each character by itself")
    return re.compile(match[1]).fullmatch


#: What may be anything is left to pydantic.
_HINTS = {
    name: hint
    for name, hint in get_type_hints(AssetBody, include_extras=True).items()
    if not any(argument is Any for argument in get_args(hint))
}
_CONVERSIONS = [(name, convert) for name, hint in _HINTS.items() if (convert := _conversion(hint))]
_PATTERNS = [(name, fits) for name, hint in _HINTS.items() if (fits := _pattern(hint))]
_ASSET: Any = defstruct(
    "_ASSET",
    [
        (name, _derived(hint), NODEFAULT)
        if get_origin(hint) is Required
        else (name, _derived(hint) | UnsetType, UNSET)
        for name, hint in _HINTS.items()
    ],
    forbid_unknown_fields=True,
    kw_only=True,
)
_ASSETS = _limited(list[_ASSET], get_args(get_type_hints(AssetBatch, include_extras=True)["assets"])[1:])
_DECODER: Decoder[Any] = Decoder(defstruct("_BATCH", [("assets", _ASSETS)], forbid_unknown_fields=True))
