"""Where the user's cache keeps what all installations share."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir(name: str) -> Path:
    """The folder of this name in Lily's part of the user's cache; made if missing."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "lily" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
