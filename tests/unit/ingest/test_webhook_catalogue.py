"""Sources of outside packages are found by their entry point, and take nobody's place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from lily.domain.connectors import ConnectorType
from lily.domain.errors import MisconfiguredError
from lily.ingest.webhooks import catalogue
from lily.ingest.webhooks.catalogue import GROUP, webhook_sources
from lily.ingest.webhooks.sources import WebhookSource


@dataclass(frozen=True)
class Point:
    loaded: Any
    value: str = "my_package:SOURCE"

    def load(self) -> Any:
        return self.loaded


def source(name: str) -> WebhookSource:
    return WebhookSource(ConnectorType(name), lambda *_: True, lambda *_: [])


def found(monkeypatch: pytest.MonkeyPatch, *loaded: Any) -> dict[str, WebhookSource]:
    monkeypatch.setattr(catalogue, "entry_points", lambda group: map(Point, loaded) if group == GROUP else [])
    webhook_sources.cache_clear()
    try:
        return webhook_sources()
    finally:
        webhook_sources.cache_clear()


def test_a_package_adds_a_source_and_other_plug_ins_of_the_group_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert set(found(monkeypatch, source("my-monitor"), object())) == {
        "monte-carlo",
        "webhook-in",
        "my-monitor",
    }


def test_a_package_cannot_take_the_place_of_a_source_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MisconfiguredError, match="monte-carlo"):
        found(monkeypatch, source("monte-carlo"))
