"""The oracle of incidents: what a set of steps means, in any order. Small and slow on purpose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from kit.lineage_model import Said

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_LEAVES = ("column", "bi_field", "field")


@dataclass(frozen=True)
class KnownAsset:
    asset_id: str
    asset_name: str
    asset_type: str
    external_id: str | None
    data_source: str | None
    is_deleted: bool


@dataclass(frozen=True)
class Incident:
    said: dict[str, Any]
    opened_at: datetime
    updated_at: datetime
    asset_id: str | None


def incidents(steps: Iterable[Said], assets: Sequence[KnownAsset]) -> dict[str, Incident]:
    """Every incident as it must be, by its id."""
    distinct = {step.event_id: step for step in steps}.values()
    ids = {step.from_id for step in distinct}
    return {each: _incident([step for step in distinct if step.from_id == each], assets) for each in ids}


def _incident(steps: Sequence[Said], assets: Sequence[KnownAsset]) -> Incident:
    newest: dict[str, tuple[tuple[datetime, UUID], Any]] = {}
    for step in steps:
        for part, clock in (("first", _BEGINNING), ("said", step.event_time)):
            for name, value in _part(step, part).items():
                newest[name] = max(
                    newest.get(name, ((_BEGINNING, UUID(int=0)), None)),
                    ((clock, step.event_id), value),
                    key=_clock,
                )
    said = {name: value for name, (_, value) in newest.items()}
    times = [step.event_time for step in steps]
    return Incident(said, min(times), max(times), _asset(said, assets))


def _part(step: Said, name: str) -> Mapping[str, Any]:
    part = step.body.get(name, {})
    assert isinstance(part, dict)
    return part


def _clock(word: tuple[tuple[datetime, UUID], Any]) -> tuple[datetime, UUID]:
    return word[0]


def _asset(said: Mapping[str, Any], assets: Sequence[KnownAsset]) -> str | None:
    for name in said.get("names") or []:
        for matching in (
            [asset for asset in assets if asset.asset_id == name],
            [
                asset
                for asset in _of_source(said, assets)
                if (asset.external_id or "").lower() == name.lower()
            ],
            [asset for asset in _of_source(said, assets) if asset.asset_name.lower() == name.lower()],
        ):
            there = [asset for asset in matching if not asset.is_deleted]
            found = there if there else matching
            if len(found) == 1:
                return found[0].asset_id
    return None


def _of_source(said: Mapping[str, Any], assets: Sequence[KnownAsset]) -> list[KnownAsset]:
    wanted = said.get("data_source")
    return [
        asset for asset in assets if asset.asset_type not in _LEAVES and wanted in (None, asset.data_source)
    ]
