"""Reads JSON bodies into checked fields; whatever is wrong is said with its place and what is allowed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, from_json, to_json

from lily.access.requests import MalformedRequest
from lily.domain.errors import InvalidInput, LilyError
from lily.ingest.assets import AssetBatch, AssetBody
from lily.ingest.batches import read_batch
from lily.ingest.flaws import NUL, escape, find_flaws, is_plain

Fields = dict[str, Any]
Shape = TypeVar("Shape")

_MAX_ERRORS = 100
_BATCH_START = re.compile(rb'\s*\{\s*"assets"\s*:')


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
        has_nul = NUL in body
        if (has_nul or not is_plain(fields)) and (flaws := list(find_flaws(fields, "", has_nul))):
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
    quick = read_batch(body)
    if quick is not None:
        return DecodedAssets(True, quick, range(len(quick)), [])
    try:
        assets: list[Any] = _BATCH_ADAPTER.validate_json(body)["assets"]
        indexes: Sequence[int] = range(len(assets))
        rejected: list[Rejection] = []
    except ValidationError as error:
        assets, indexes, rejected = _salvage(body, _errors(error))
    return _without_flaws(DecodedAssets(True, assets, indexes, rejected), look_for_nul=NUL in body)


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
        if (look_for_nul or not is_plain(asset.get("metadata")))
        and (flaws := list(find_flaws(asset, "", look_for_nul)))
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
    return "".join(f"/{escape(str(step))}" for step in place)
