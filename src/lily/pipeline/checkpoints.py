"""Looks at the checkpoints before the queries start: what is lost or torn is refused, never skipped."""

from __future__ import annotations

import json
from pathlib import Path

from lily.domain.errors import MisconfiguredError
from lily.repositories.postgres.applier import Position

_MEND = "Nothing was changed. Stop Lily and run `./lily replay`: it rebuilds the checkpoints from the log."


def check_checkpoint(checkpoint: Path, query: str, position: Position | None) -> None:
    """Raise unless this checkpoint continues where the database stands."""
    newest = _newest(checkpoint / "offsets")
    if newest is None:
        if position is not None:
            raise MisconfiguredError(
                f"the checkpoint of {query} is lost: {checkpoint} has no offsets, but the database has "
                f"applied batch {position.batch_id}. {_MEND}"
            )
        return
    _check_text(newest, query)
    committed = _newest(checkpoint / "commits")
    if committed is not None:
        _check_text(committed, query)
    if position is not None and int(newest.name) < position.batch_id:
        raise MisconfiguredError(
            f"the checkpoint of {query} is older than the database: it ends at batch {newest.name}, the "
            f"database at batch {position.batch_id}. {_MEND}"
        )


def _newest(folder: Path) -> Path | None:
    if not folder.is_dir():
        return None
    return max(
        (file for file in folder.iterdir() if file.name.isdigit()), key=lambda f: int(f.name), default=None
    )


def _check_text(file: Path, query: str) -> None:
    """Spark writes a version line and then JSON lines; a torn file breaks one of them."""
    try:
        version, *lines = file.read_text(encoding="utf-8").splitlines()
        sound = version.startswith("v") and bool(lines)
        for line in lines:
            if line != "-":
                json.loads(line)
    except (ValueError, OSError):
        sound = False
    if not sound:
        raise MisconfiguredError(f"the checkpoint of {query} is damaged: {file} is torn. {_MEND}")
