"""Named queries: every `-- name: x` in a `.sql` file beside this one starts the query `x`."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import LiteralString, cast

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


@cache
def load(file: str, package: str = __name__) -> dict[str, LiteralString]:
    """The queries of one file by name, for instance `load("assets.sql")["find_asset"]`."""
    text = files(package).joinpath(file).read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    # The text is ours, shipped with the code: as literal as a string in the source.
    return {
        name: cast(LiteralString, body.strip()) for name, body in zip(parts[::2], parts[1::2], strict=True)
    }
