"""What several integration tests begin with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kit.enforced import Warehouse
    from lily.standalone.services import Services


@pytest.fixture
def warehouse(services: Services) -> Iterator[Warehouse]:
    """A database to protect, with an owner and analysts, that no gateway knows."""
    from kit.enforced import Warehouse

    made = Warehouse(services.environment["LILY_DATABASE_URL"])
    yield made
    made.close()
