"""Scenario 30, on a whole installation: the log replayed from zero gives the same tags and edges.

Takes minutes, so only with LILY_TEST_PROFILE=explore; test_lineage_property.py has the same in small.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from kit.eventually import eventually
from kit.graphs import Graph, chain
from kit.platform import Platform, running_platform

pytestmark = [
    pytest.mark.skipif(os.environ.get("LILY_TEST_PROFILE") != "explore", reason="takes minutes"),
    pytest.mark.timeout(900),
]


@pytest.fixture
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with running_platform(tmp_path_factory.mktemp("platform")) as running:
        yield running


def test_30_the_whole_log_replayed_from_zero_gives_the_same_tags_and_edges(platform: Platform) -> None:
    for _ in range(10):
        graph = Graph(platform)
        chain(graph)
        graph.link("a>c", "d>a", blocked_tags=["GDPR"])
        graph.tag("a", "PII", "GDPR")
        graph.tag("c")
        graph.untag("a")
        assert graph.having("PII", "a", "b", "c", "d") == "abcd"
    report = json.loads(platform.lily("lineage", "rebuild", "--check"))
    assert set(report["differences"].values()) == {0}
    before = state(platform)
    platform.lily("down")
    platform.lily("replay", "--reset")
    platform.lily("up", "--detach", "--port", str(platform.client.base_url.port))
    eventually(lambda: state(platform) == before, 180)


def state(platform: Platform) -> tuple[list[dict[str, Any]], ...]:
    """All edges and all effective tags, but for when they came into force here."""
    facts = "SELECT tenant_id, asset_id, tag, is_partial, is_asserted FROM effective_tags ORDER BY 1, 2, 3, 4"
    return platform.fetch("SELECT * FROM edges ORDER BY 1, 2, 3, 4"), platform.fetch(facts)
