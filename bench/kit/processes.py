"""What an installation's processes and the benchmark itself use: processor time and memory by group."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types

from lily.standalone.states import State

_KILOBYTE = 1024


@dataclass(frozen=True)
class Usage:
    """Seconds of processor time so far, and bytes in memory now. PSS shares common pages out among those who
    use them; RSS counts PostgreSQL's shared buffers once for every connection. None where there is no PSS."""

    cpu_seconds: float = 0.0
    rss_bytes: int = 0
    pss_bytes: int | None = 0

    def __add__(self, other: Usage) -> Usage:
        pss = None if self.pss_bytes is None or other.pss_bytes is None else self.pss_bytes + other.pss_bytes
        return Usage(self.cpu_seconds + other.cpu_seconds, self.rss_bytes + other.rss_bytes, pss)


def usage_by_group(state: State) -> dict[str, Usage]:
    """Each part of the installation, Spark's JVM and its Python workers apart, and the benchmark."""
    groups: dict[str, Usage] = defaultdict(Usage)
    roots = {"supervisor": state.pid, **state.children, "bench": os.getpid()}
    parts = set(state.children.values())
    for name, pid in roots.items():
        with contextlib.suppress(psutil.Error):
            _add_family(groups, name, psutil.Process(pid), parts - {pid})
    return dict(groups)


def _add_family(groups: dict[str, Usage], name: str, root: psutil.Process, others: set[int]) -> None:
    """`others` have groups of their own although they are children, too."""
    foreign = {child.pid for pid in others & _pids(root) for child in [psutil.Process(pid)]}
    for pid in list(foreign):
        foreign |= _pids(psutil.Process(pid))
    for process in (root, *root.children(recursive=True)):
        if process.pid not in foreign:
            with contextlib.suppress(psutil.Error):
                groups[_group_of(name, process)] += _usage(process)


def _pids(process: psutil.Process) -> set[int]:
    return {child.pid for child in process.children(recursive=True)}


def _group_of(part: str, process: psutil.Process) -> str:
    if part != "streams":
        return part
    if process.name() == "java":
        return "streams-jvm"
    return "streams-workers" if "pyspark" in " ".join(process.cmdline()) else "streams-python"


def _usage(process: psutil.Process) -> Usage:
    """Includes the time of children that have ended and were waited for, so nothing is missed or twice in."""
    times = process.cpu_times()
    seconds = times.user + times.system + times.children_user + times.children_system
    return Usage(seconds, int(process.memory_info().rss), _pss(process.pid))


def _pss(pid: int) -> int | None:
    """None where the system does not tell; nothing for a process that has ended meanwhile."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except ProcessLookupError:
        return 0
    except OSError:
        return None
    return next((int(line.split()[1]) * _KILOBYTE for line in lines if line.startswith("Pss:")), 0)


def spent(before: dict[str, Usage], after: dict[str, Usage]) -> dict[str, float]:
    """Seconds of processor time per group between two looks; a restarted process counts from its start."""
    used = {name: usage.cpu_seconds - before.get(name, Usage()).cpu_seconds for name, usage in after.items()}
    return {
        name: round(seconds if seconds >= 0 else after[name].cpu_seconds, 2) for name, seconds in used.items()
    }


def memory(usages: dict[str, Usage]) -> dict[str, dict[str, int | None]]:
    return {name: {"rss_bytes": use.rss_bytes, "pss_bytes": use.pss_bytes} for name, use in usages.items()}


def driver_of(streams_pid: int) -> int:
    """The JVM of a streams process."""
    children = psutil.Process(streams_pid).children(recursive=True)
    return int(next(child.pid for child in children if child.name() == "java"))
