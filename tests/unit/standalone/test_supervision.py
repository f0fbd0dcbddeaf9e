"""What the supervisor promises about its children, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.eventually import eventually
from kit.processes import is_running
from lily.domain.errors import Unavailable
from lily.standalone.guardian import Guardian
from lily.standalone.installations import Installation
from lily.standalone.parts import Part
from lily.standalone.states import last_state, running_state
from lily.standalone.supervision import Supervisor


def shell(name: str, script: str, **options: object) -> Part:
    return Part(name=name, command=["/bin/sh", "-c", script], ready=lambda: True, **options)  # type: ignore[arg-type]


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    place = Installation.at(tmp_path / "data")
    place.create()
    return place


@pytest.fixture
def supervisor(installation: Installation) -> Iterator[Supervisor]:
    supervisor = Supervisor(installation)
    yield supervisor
    supervisor.stop()


def test_a_killed_child_is_restarted_and_the_others_are_left_alone(supervisor: Supervisor) -> None:
    supervisor.start([shell("one", "exec sleep 60"), shell("two", "exec sleep 60")])
    killed, other = supervisor.children["one"].pid, supervisor.children["two"].pid
    os.kill(killed, signal.SIGKILL)

    def healed() -> bool:
        supervisor.tick()
        return supervisor.children["one"].pid not in (0, killed) and supervisor.children["one"].ready

    eventually(healed)
    assert supervisor.children["one"].restarts == 1
    assert supervisor.children["two"].pid == other


def test_a_standby_takes_the_place_of_the_dead_and_a_new_one_stands_by(supervisor: Supervisor) -> None:
    supervisor.start([shell("streams", "exec sleep 60")])
    supervisor.add([shell("standby", "exec sleep 60", stands_by_for="streams")])
    killed, stood_by = supervisor.children["streams"].pid, supervisor.children["standby"].pid
    os.kill(killed, signal.SIGKILL)

    def healed() -> bool:
        supervisor.tick()
        return supervisor.children["standby"].pid not in (0, killed, stood_by)

    eventually(healed)
    assert supervisor.children["streams"].pid == stood_by
    assert supervisor.children["streams"].is_alive()


def test_a_standby_that_dies_takes_nothing_with_it(supervisor: Supervisor) -> None:
    supervisor.start([shell("streams", "exec sleep 60")])
    supervisor.add([shell("standby", "exec sleep 60", stands_by_for="streams")])
    leader, killed = supervisor.children["streams"].pid, supervisor.children["standby"].pid
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: supervisor.tick() is None and supervisor.children["standby"].pid not in (0, killed))
    assert supervisor.children["streams"].pid == leader


def test_grandchildren_of_a_killed_child_are_ended_before_it_restarts(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    note = tmp_path / "grandchild"
    supervisor.start([shell("parent", f"sleep 60 & echo $! >>'{note}'; wait")])
    eventually(lambda: note.exists() and note.read_text().endswith("\n"))
    grandchild = int(note.read_text().split()[0])
    os.kill(supervisor.children["parent"].pid, signal.SIGKILL)
    eventually(lambda: supervisor.tick() is None and not is_running(grandchild))


def test_stop_is_orderly_and_forced_when_the_time_is_over(installation: Installation, tmp_path: Path) -> None:
    supervisor = Supervisor(installation)
    good = shell("good", f"trap 'echo bye >\"{tmp_path}/good\"; exit' TERM; while :; do sleep 0.05; done")
    bad = shell("bad", "trap '' TERM; while :; do sleep 0.05; done", stop_seconds=0.3)
    supervisor.start([good, bad])
    pids = [child.pid for child in supervisor.children.values()]
    supervisor.stop()
    assert (tmp_path / "good").read_text() == "bye\n"
    assert not [pid for pid in pids if is_running(pid)]


def test_parts_stop_in_the_reverse_of_their_order(installation: Installation) -> None:
    stopped: list[str] = []
    supervisor = Supervisor(
        installation, lambda name, event: stopped.append(name) if event == "stopped" else None
    )
    supervisor.start([shell("postgres", "exec sleep 60"), shell("kafka", "exec sleep 60")])
    supervisor.start([shell("streams", "exec sleep 60"), shell("gateway", "exec sleep 60")])
    supervisor.stop()
    assert stopped == ["gateway", "streams", "kafka", "postgres"]


def test_a_part_that_never_starts_is_given_up_with_the_end_of_its_log(supervisor: Supervisor) -> None:
    broken = Part(name="broken", command=["/bin/sh", "-c", "echo no such luck; exit 3"], ready=lambda: False)
    with pytest.raises(Unavailable, match=r"(?s)broken does not start.*no such luck"):
        supervisor.start([broken])


def test_the_state_names_the_living_children(supervisor: Supervisor, installation: Installation) -> None:
    supervisor.start([shell("one", "exec sleep 60")])
    supervisor.enter("running")
    state = running_state(installation)
    assert state is not None
    assert state.phase == "running"
    assert state.children == {"one": supervisor.children["one"].pid}
    assert state.parts["one"]["state"] == "ready"


def test_nothing_survives_a_killed_supervisor(installation: Installation) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from lily.standalone.installations import Installation\n"
        "from lily.standalone.parts import Part; from lily.standalone.supervision import Supervisor\n"
        "supervisor = Supervisor(Installation.at(Path(sys.argv[1])))\n"
        "supervisor.start([Part('deaf', ['/bin/sh', '-c', \"trap '' TERM INT; sleep 60\"], lambda: True)])\n"
        "supervisor.run()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(installation.data_dir)])
    eventually(lambda: (state := last_state(installation)) is not None and state.phase == "running")
    state = running_state(installation)
    assert state is not None
    process.kill()
    process.wait()
    eventually(lambda: not is_running(state.children["deaf"]))
    assert running_state(installation) is None


def test_a_killed_guardian_is_replaced() -> None:
    sleeper = subprocess.Popen(["sleep", "60"], start_new_session=True)
    guardian = Guardian()
    guardian._shell.kill()
    guardian._shell.wait()
    guardian.watch({sleeper.pid: "KILL"})
    assert guardian._shell.stdin is not None
    guardian._shell.stdin.close()  # as the kernel does when the supervisor is killed
    assert sleeper.wait(5) == -signal.SIGKILL
    guardian._shell.wait()
