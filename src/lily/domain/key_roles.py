"""What is left of the roles of an API key when its owner has lost some."""

from __future__ import annotations

from collections.abc import Collection


def roles_of_key(
    made_with: Collection[str], owner_had: Collection[str], owner_has: Collection[str]
) -> frozenset[str]:
    """The roles a key has now: a key may never do more than its owner.

    An administrator makes keys with roles of which they have others. Such a key keeps them while its owner
    keeps all they had when they made it; after that it has no role that its owner does not have.
    """
    if set(owner_had) <= set(owner_has):
        return frozenset(made_with)
    return frozenset(made_with) & frozenset(owner_has)
