"""External ids of what has names within names, in one spelling: `shop.public.orders`, `shop.public."a.b"`."""

from __future__ import annotations

import re

_NAME = re.compile(r'"((?:[^"]|"")*)"(?=\.|$)|([^.]*)')


def qualified(*names: str) -> str:
    """The external id of what has this name in what has that name …: `shop.public.orders`.

    A name with a dot or a quote in it is quoted, so that no two things have the same id.
    """
    return ".".join(map(_quoted, names))


def names_in(external_id: str) -> tuple[str, ...]:
    """The names an external id was made of; of one spelled otherwise, what lies between dots."""
    names, place = [], 0
    while place <= len(external_id):
        found = _NAME.match(external_id, place)
        assert found is not None, "an empty name matches everywhere"
        quoted, plain = found.groups()
        names.append(plain if quoted is None else quoted.replace('""', '"'))
        place = found.end() + 1
    return tuple(names)


def _quoted(name: str) -> str:
    if "." in name or '"' in name:
        return '"' + name.replace('"', '""') + '"'
    return name
