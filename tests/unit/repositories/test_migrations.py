"""Migrations can be told apart by their numbers, and ask for a server that knows what they use."""

from __future__ import annotations

from collections import Counter

import pytest

from lily.domain.errors import MisconfiguredError
from lily.repositories.postgres.migrations import _scripts, require_version


def test_every_migration_has_a_number_of_its_own() -> None:
    numbers = Counter(number for number, _, _ in _scripts())
    assert [number for number, uses in numbers.items() if uses > 1] == []


def test_a_server_that_is_too_old_is_refused_with_what_to_do() -> None:
    require_version(170_000)
    with pytest.raises(MisconfiguredError, match=r"PostgreSQL 16; Lily needs 17 or newer.*LILY_DATABASE_URL"):
        require_version(160_010)
