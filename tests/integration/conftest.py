"""What several integration tests begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rest_kit import Gateway

    from kit.enforced import Warehouse
    from lily.settings import Settings
    from lily.standalone.services import Services

#: Files that take longest, the longest first: begun last, they would be waited for alone.
_LONGEST = (
    "test_identity_keycloak.py",
    "test_lineage_property.py",
    "test_lineage_rebuild.py",
    "test_contract.py",
    "test_merge_property.py",
    "test_pipeline_lanes.py",
    "test_pipeline_decode.py",
    "test_incidents.py",
    "test_access_leaks.py",
    "test_dispatchers.py",
    "test_delivery_property.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {Path(__file__).with_name(name): place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))


@pytest.fixture(scope="module")
def running(shared_settings_without_log: Settings) -> Iterator[Gateway]:
    """A gateway for all tests of a file that write nothing to the log; what they find is for each to say."""
    from rest_kit import gateway

    with gateway(shared_settings_without_log) as started:
        yield started


@pytest.fixture
def warehouse(services: Services) -> Iterator[Warehouse]:
    """A database to protect, with an owner and analysts, that no gateway knows."""
    from kit.enforced import Warehouse

    made = Warehouse(services.environment["LILY_DATABASE_URL"])
    yield made
    made.close()
