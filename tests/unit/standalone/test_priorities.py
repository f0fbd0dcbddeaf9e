"""The pipeline gives way to who waits for an answer, and to nobody else's cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

AUTOGROUP = Path("/proc/self/autogroup")
LOOK = """
import json, os, subprocess, sys
from pathlib import Path
from lily.standalone import priorities
child = subprocess.Popen(["sleep", "60"])
group = priorities._AUTOGROUP = Path(sys.argv[1])
priorities.give_way()
niceness = [os.getpriority(os.PRIO_PROCESS, pid) for pid in (0, child.pid)]
child.kill()
print(json.dumps([niceness, group.read_text().split()[-1:] if group.exists() else []]))
"""


def own_niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def looked(own_session: bool, shown_in: Path = AUTOGROUP) -> list[object]:
    command = [sys.executable, "-c", LOOK, str(shown_in)]
    done = subprocess.run(command, capture_output=True, check=True, start_new_session=own_session)
    found: list[object] = json.loads(done.stdout)
    return found


def test_a_session_of_its_own_gives_way_with_all_it_started() -> None:
    niceness, group = looked(own_session=True)
    assert niceness == [max(2, own_niceness())] * 2
    assert group in (["2"], [])


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this system shares the processor by process alone")
def test_somebody_elses_session_is_left_as_it_is() -> None:
    before = AUTOGROUP.read_text(encoding="ascii").split()[-1:]
    niceness, group = looked(own_session=False)
    assert (niceness, group) == ([own_niceness()] * 2, before)


def test_a_system_that_does_not_look_at_sessions_is_no_error(tmp_path: Path) -> None:
    empty = tmp_path / "autogroup"
    empty.touch()
    niceness, group = looked(own_session=True, shown_in=empty)
    assert (niceness, group) == ([max(2, own_niceness())] * 2, [])
