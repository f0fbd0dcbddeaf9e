"""What others did to the rights on a protected relation, carried over to what it will be restored to.

A right to read that somebody granted comes back with the others when protection ends; one that somebody took
away is never given back. Rights to write are nobody's business here: they stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from lily.targets.enforcement.rights import Item, Items, Rights


def adopt(original: Rights, enforced: Rights, actual: Rights, columns: Iterable[int], owner: int) -> Rights:
    """The original as it would be now had Lily not been there."""
    if actual == enforced:
        return original
    numbers = list(columns)
    lost = {role: _lost(role, enforced, actual, numbers) for role in enforced.grantees(owner)}
    gone = {role for role, missing in lost.items() if missing and not _reads_any(role, actual, numbers)}
    partly = {role: missing for role, missing in lost.items() if missing and role not in gone}
    changed = _merged(original.relation or (), actual.relation or (), (), gone | set(partly), owner)
    split = {role for role in partly if role in original.holders("SELECT", owner)}
    by_column = {
        number: _column(number, original, enforced, actual, (gone, partly, split), owner)
        for number in numbers
    }
    relation = None if original.relation is None and actual.relation is None else changed
    return Rights(relation, {number: items for number, items in by_column.items() if items})


def _lost(role: int, enforced: Rights, actual: Rights, numbers: list[int]) -> set[int]:
    def could(rights: Rights, number: int) -> bool:
        return any(item.grantee == role and "SELECT" in item.held for item in rights.columns.get(number, ()))

    return {n for n in numbers if could(enforced, n) and not could(actual, n)}


def _reads_any(role: int, actual: Rights, numbers: list[int]) -> bool:
    everything = [actual.relation or (), *(actual.columns.get(number, ()) for number in numbers)]
    return any(item.grantee == role and item.only(reading=True) for items in everything for item in items)


def _column(
    number: int,
    original: Rights,
    enforced: Rights,
    actual: Rights,
    losers: tuple[set[int], dict[int, set[int]], set[int]],
    owner: int,
) -> Items:
    gone, partly, split = losers
    without = gone | {role for role, missing in partly.items() if number in missing}
    items = _merged(
        original.columns.get(number, ()),
        actual.columns.get(number, ()),
        enforced.columns.get(number, ()),
        without,
        owner,
    )
    kept = [role for role in sorted(split) if number not in partly[role]]
    return (*items, *(Item(owner, role, ("SELECT",)) for role in kept))


def _merged(original: Items, actual: Items, ours: Items, without: set[int], owner: int) -> Items:
    """The original's rights to read, what was granted beside `ours`, and the rights to write as they are."""
    by_pair: dict[tuple[int, int], set[str]] = {}
    for item in original:
        keep = () if item.grantee in without or item.grantee == owner else item.only(reading=True)
        by_pair.setdefault((item.grantor, item.grantee), set()).update(keep)
    mine = {(item.grantee, right.rstrip("*")) for item in ours for right in item.held}
    for item in actual:
        held = by_pair.setdefault((item.grantor, item.grantee), set())
        held.update(item.held if item.grantee == owner else item.only(reading=False))
        held.update(
            right for right in item.only(reading=True) if (item.grantee, right.rstrip("*")) not in mine
        )
    return tuple(
        Item(grantor, grantee, tuple(sorted(_strongest(held))))
        for (grantor, grantee), held in by_pair.items()
        if held
    )


def _strongest(held: set[str]) -> set[str]:
    return {right for right in held if f"{right}*" not in held}
