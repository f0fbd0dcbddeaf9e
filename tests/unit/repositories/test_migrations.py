"""Migrations can be told apart by their numbers."""

from __future__ import annotations

from collections import Counter

from lily.repositories.postgres.migrations import _scripts


def test_every_migration_has_a_number_of_its_own() -> None:
    numbers = Counter(number for number, _, _ in _scripts())
    assert [number for number, uses in numbers.items() if uses > 1] == []
