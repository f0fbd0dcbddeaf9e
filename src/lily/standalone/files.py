"""Files that are either the old or the new version, never half of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(file: Path, text: str, mode: int = 0o600) -> None:
    """Replace the file's content in one step, readable by its owner only unless told otherwise."""
    descriptor, fresh = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    Path(fresh).chmod(mode)
    Path(fresh).replace(file)
