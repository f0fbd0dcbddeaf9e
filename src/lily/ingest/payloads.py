"""Reads JSON bodies into checked fields; whatever is wrong is said with its place and what is allowed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, from_json, to_json

from lily.access.requests import MalformedRequest
from lily.domain.errors import InvalidInput, LilyError
from lily.ingest.assets import MAX_METADATA_DEPTH, AssetBatch, AssetBody

Fields = dict[str, Any]
Shape = TypeVar("Shape")

_MAX_ERRORS = 100
_BATCH_START = re.compile(rb'\s*\{\s*"assets"\s*:')
_NUL = b"\\u0000"
#: JSON numbers beyond a double's range are read differently by every reader.
_LARGEST = 1e308


@dataclass(frozen=True, slots=True)
class Rejection:
    """An asset of a batch that is not accepted; the others are."""

    index: int
    error: LilyError


@dataclass(frozen=True, slots=True)
class DecodedAssets:
    """The assets of one body; `indexes` says where in it each one was."""

    is_batch: bool
    assets: list[Fields]
    indexes: Sequence[int]
    rejected: list[Rejection]


class Decoder(Generic[Shape]):
    """Reads bodies of one shape."""

    def __init__(self, shape: type[Shape]) -> None:
        self._adapter = TypeAdapter(shape)
        self._names = sorted(get_type_hints(shape))

    def decode(self, body: bytes) -> Any:
        try:
            fields = self._adapter.validate_json(body)
        except ValidationError as error:
            raise self.refusal(_errors(error)) from None
        has_nul = _NUL in body
        if (has_nul or not _is_plain(fields)) and (flaws := list(_flaws(fields, "", has_nul))):
            raise _invalid(flaws)
        return fields

    def refusal(self, errors: list[ErrorDetails], skip: int = 0) -> LilyError:
        """The error to answer; `skip` leaves out the first steps of each place."""
        if any(error["type"] == "json_invalid" for error in errors):
            raise MalformedRequest(f"the body is not JSON: {errors[0]['ctx']['error']}")
        return _invalid([self._explain(error, error["loc"][skip:]) for error in errors[:_MAX_ERRORS]])

    def _explain(self, error: ErrorDetails, place: tuple[int | str, ...]) -> dict[str, str]:
        detail = error["msg"].removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            detail = f"unknown field {str(place[-1])[:64]!r}; allowed: {', '.join(self._names)}"
        elif error["type"] == "missing":
            detail = f"the field {place[-1]!r} is required"
        elif error["type"] == "string_pattern_mismatch":
            detail = "control characters are not allowed here"
        return {"pointer": _pointer(place), "detail": detail}


_ONE = Decoder(AssetBody)
_BATCH = Decoder(AssetBatch)
_BATCH_ADAPTER = TypeAdapter(AssetBatch)


def decode_assets(body: bytes) -> DecodedAssets:
    """One asset, or `{"assets": […]}`; a single bad asset is raised, those of a batch are listed."""
    if _BATCH_START.match(body):
        return _decode_batch(body)
    try:
        return DecodedAssets(False, [_ONE.decode(body)], (0,), [])
    except InvalidInput:
        if _is_batch(body):
            return _decode_batch(body)
        raise


def _decode_batch(body: bytes) -> DecodedAssets:
    try:
        assets: list[Any] = _BATCH_ADAPTER.validate_json(body)["assets"]
        indexes: Sequence[int] = range(len(assets))
        rejected: list[Rejection] = []
    except ValidationError as error:
        assets, indexes, rejected = _salvage(body, _errors(error))
    return _without_flaws(DecodedAssets(True, assets, indexes, rejected), look_for_nul=_NUL in body)


def _salvage(body: bytes, errors: list[ErrorDetails]) -> tuple[list[Any], list[int], list[Rejection]]:
    """The good assets of a batch with bad ones. What is wrong with the batch itself is raised."""
    of_batch = [error for error in errors if len(error["loc"]) < 2]
    if of_batch:
        raise _BATCH.refusal(of_batch)
    by_index: dict[int, list[ErrorDetails]] = defaultdict(list)
    for error in errors:
        by_index[int(error["loc"][1])].append(error)
    raw = from_json(body)["assets"]
    good = [index for index in range(len(raw)) if index not in by_index]
    rejected = [Rejection(index, _ONE.refusal(of_one, skip=2)) for index, of_one in by_index.items()]
    if not good:
        return [], [], rejected
    again = to_json({"assets": [raw[index] for index in good]}, inf_nan_mode="constants")
    assets: list[Any] = _BATCH_ADAPTER.validate_json(again)["assets"]
    return assets, good, rejected


def _without_flaws(decoded: DecodedAssets, look_for_nul: bool) -> DecodedAssets:
    flawed = {
        position: flaws
        for position, asset in enumerate(decoded.assets)
        if (look_for_nul or not _is_plain(asset.get("metadata")))
        and (flaws := list(_flaws(asset, "", look_for_nul)))
    }
    if not flawed:
        return decoded
    kept = [position for position in range(len(decoded.assets)) if position not in flawed]
    rejected = [Rejection(decoded.indexes[position], _invalid(flaws)) for position, flaws in flawed.items()]
    return DecodedAssets(
        True,
        [decoded.assets[position] for position in kept],
        [decoded.indexes[position] for position in kept],
        decoded.rejected + rejected,
    )


def _is_plain(value: Any, levels: int = MAX_METADATA_DEPTH) -> bool:
    """Whether a value has neither too many levels nor a number JSON cannot write."""
    children = value.values() if type(value) is dict else value if type(value) is list else ()
    for child in children:
        kind = type(child)
        if kind is str:
            continue
        if kind is dict or kind is list:
            if levels <= 1 or not _is_plain(child, levels - 1):
                return False
        elif (kind is float or kind is int) and not -_LARGEST < child < _LARGEST:
            return False
    return True


def _flaws(value: Any, pointer: str, look_for_nul: bool, level: int = 0) -> Iterator[dict[str, str]]:
    """What pydantic does not see: NUL characters, numbers JSON cannot write, too many levels."""
    if level > MAX_METADATA_DEPTH and isinstance(value, dict | list):
        yield {"pointer": pointer, "detail": f"nested deeper than {MAX_METADATA_DEPTH} levels"}
    elif isinstance(value, dict):
        for key, child in value.items():
            if look_for_nul and "\x00" in key:
                yield {
                    "pointer": pointer,
                    "detail": "a key contains the character U+0000, which is not allowed",
                }
            yield from _flaws(child, f"{pointer}/{_escape(key)}", look_for_nul, level + 1)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _flaws(child, f"{pointer}/{index}", look_for_nul, level + 1)
    elif isinstance(value, float | int) and not -_LARGEST < value < _LARGEST:
        yield {"pointer": pointer, "detail": "not a number, or too large a one; allowed: up to 1e308"}
    elif look_for_nul and isinstance(value, str) and "\x00" in value:
        yield {"pointer": pointer, "detail": "the character U+0000 is not allowed"}


def _is_batch(body: bytes) -> bool:
    try:
        document = from_json(body)
    except ValueError:
        return False
    return isinstance(document, dict) and "assets" in document


def _errors(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_input=False)


def _invalid(errors: list[dict[str, str]]) -> InvalidInput:
    first = errors[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    where = f"{first['pointer']}: " if first["pointer"] else ""
    return InvalidInput(f"{where}{first['detail']}{more}", errors=errors[:_MAX_ERRORS])


def _pointer(place: tuple[int | str, ...]) -> str:
    return "".join(f"/{_escape(str(step))}" for step in place)


def _escape(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")
