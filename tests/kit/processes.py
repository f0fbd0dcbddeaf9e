"""What tests ask of the machine's processes."""

from __future__ import annotations

import psutil


def is_running(pid: int) -> bool:
    """Whether it does anything yet; one that ended may still be listed."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
