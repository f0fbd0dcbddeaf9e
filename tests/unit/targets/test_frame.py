"""Targets: Lily's own, and those of packages by entry point."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from lily.domain.connectors import ConnectorType
from lily.domain.errors import MisconfiguredError
from lily.targets import frame
from lily.targets.frame import TargetType, target_types

PAGER = TargetType(ConnectorType("pager"), lambda _opening: None)  # type: ignore[arg-type,return-value]
IMPOSTOR = TargetType(ConnectorType("slack"), lambda _opening: None)  # type: ignore[arg-type,return-value]
NOTHING = "not a target"


def installed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    entry = EntryPoint(name, f"{__name__}:{name}", frame.GROUP)
    monkeypatch.setattr(frame, "entry_points", lambda **_: [entry])
    target_types.cache_clear()


@pytest.fixture(autouse=True)
def _fresh() -> object:
    yield
    target_types.cache_clear()


def test_lilys_own_are_there() -> None:
    assert set(target_types()) >= {"slack", "webhook"}


def test_a_package_adds_one_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "PAGER")
    assert target_types()["pager"] is PAGER


@pytest.mark.parametrize("name", ["IMPOSTOR", "NOTHING"])
def test_a_package_cannot_replace_one_or_bring_something_else(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    installed(monkeypatch, name)
    with pytest.raises(MisconfiguredError):
        target_types()
