"""What a command does with the databases of its installation: opened for it, closed after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lily.apps.commands.options import settings_of

if TYPE_CHECKING:
    from lily.apps.databases import CommandDatabases

T = TypeVar("T")


def with_databases(data_dir: Path, act: Callable[[CommandDatabases], Awaitable[T]]) -> T:
    """What the act comes to."""
    from lily.apps.databases import open_databases  # slow to import

    async def run() -> T:
        async with open_databases(settings_of(data_dir)) as opened:
            return await act(opened)

    return asyncio.run(run())
