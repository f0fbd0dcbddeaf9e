"""How commands find out whether an installation runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types
import pytest

from lily.domain.errors import MisconfiguredError
from lily.standalone.installations import Installation
from lily.standalone.states import (
    AlreadyRunning,
    State,
    end_leftovers,
    running_state,
    sole_supervisor,
    started_at,
    write_state,
)


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    place = Installation.at(tmp_path / "data")
    place.create()
    return place


def test_a_second_supervisor_is_refused(installation: Installation) -> None:
    with sole_supervisor(installation), pytest.raises(AlreadyRunning), sole_supervisor(installation):
        pass


def test_a_process_that_took_over_the_number_is_not_mistaken_for_the_supervisor(
    installation: Installation,
) -> None:
    write_state(installation, State(os.getpid(), started_at(os.getpid()), "running"))
    assert running_state(installation) is not None
    write_state(installation, State(os.getpid(), started_at(os.getpid()) - 3600, "running"))
    assert running_state(installation) is None


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system itself keeps the moment of a start")
def test_a_process_is_recognised_after_the_clock_was_set(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_state(installation, State(os.getpid(), started_at(os.getpid()), "running"))
    boot = psutil.boot_time()
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: boot + 600)
    assert abs(psutil.Process().create_time() - time.time()) > 500
    assert running_state(installation) is not None


def test_what_ran_before_the_machine_was_started_anew_does_not_run(installation: Installation) -> None:
    left = subprocess.Popen(["sleep", "60"], start_new_session=True)
    start = started_at(left.pid)
    parts = {"left": {"started_at": start}}
    write_state(
        installation,
        State(left.pid, start, "running", children={"left": left.pid}, parts=parts, boot="another"),
    )
    assert running_state(installation) is None
    end_leftovers(installation, seconds=0.1)
    assert left.poll() is None
    left.kill()
    left.wait()


def test_leftovers_are_ended_but_strangers_with_their_number_are_not(installation: Installation) -> None:
    left, stranger = (subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(2))
    parts = {"left": {"started_at": started_at(left.pid)}, "stranger": {"started_at": 1.0}}
    children = {"left": left.pid, "stranger": stranger.pid}
    write_state(installation, State(1, 0.0, "running", children=children, parts=parts))
    end_leftovers(installation, seconds=0.1)
    assert left.wait(5) != 0
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_a_directory_with_foreign_files_is_not_settled_in(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(MisconfiguredError, match="thesis"):
        Installation.at(tmp_path).refuse_foreign()


def test_an_empty_or_own_directory_is_fine(installation: Installation) -> None:
    installation.refuse_foreign()
    installation.env_file.write_text("")
    (installation.data_dir / "anything").touch()
    installation.refuse_foreign()
