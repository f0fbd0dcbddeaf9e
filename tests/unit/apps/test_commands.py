"""What the command line answers, as a user sees it: one clear line, the right exit code, no traceback."""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from lily.apps.cli import main
from lily.apps.commands.checks import Stage, steps
from lily.apps.commands.doctor import FAIL, OK, judge_java
from lily.standalone.logfiles import tail


@dataclass(frozen=True)
class Answer:
    code: int
    stdout: str
    stderr: str


class CommandLine:
    """`./lily` without the shell in front of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        for name in [name for name in os.environ if name.startswith("LILY_")]:
            monkeypatch.delenv(name)

    def run(self, *arguments: str | Path) -> Answer:
        self._monkeypatch.setattr(sys, "argv", ["lily", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        return Answer(int(exit_.value.code or 0), *self._capsys.readouterr())

    def refusal(self, *arguments: str | Path) -> str:
        """The one line with which a command is refused."""
        answer = self.run(*arguments)
        assert answer.code == 1
        assert answer.stdout == ""
        assert answer.stderr.startswith("error: ")
        assert answer.stderr.count("\n") == 1
        return answer.stderr


@pytest.fixture
def lily(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


def test_a_token_stands_alone_on_the_last_line_and_the_key_is_kept(lily: CommandLine, tmp_path: Path) -> None:
    answer = lily.run("token", "--tenant", "acme-1.eu_x", "--role", "viewer", "--data-dir", tmp_path / "data")
    assert answer.code == 0
    header, claims, signature = answer.stdout.splitlines()[-1].split(".")
    assert header
    assert claims
    assert signature
    key = [line for line in (tmp_path / "data/lily.env").read_text().splitlines() if "AUTH_SECRET" in line]
    lily.run("token", "--tenant", "other", "--role", "owner", "--data-dir", tmp_path / "data")
    assert key[0] in (tmp_path / "data/lily.env").read_text()


def test_an_unknown_role_is_refused_with_the_known_ones(lily: CommandLine, tmp_path: Path) -> None:
    line = lily.refusal("token", "--tenant", "acme", "--role", "king", "--data-dir", tmp_path)
    assert "'king'" in line
    assert "known: owner, steward, editor, viewer, scraper, connector, engine, auditor" in line


@pytest.mark.parametrize("tenant", ["", "a b", "a/b", "ä", "x" * 64])
def test_a_tenant_with_another_alphabet_or_length_is_refused(
    lily: CommandLine, tenant: str, tmp_path: Path
) -> None:
    assert "1 to 63 letters" in lily.refusal(
        "token", "--tenant", tenant, "--role", "owner", "--data-dir", tmp_path
    )


def test_a_busy_port_is_named_with_the_way_out(lily: CommandLine, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = lily.refusal("up", "--port", str(port), "--data-dir", tmp_path / "data")
    assert f"port {port}" in line
    assert "--port" in line


def test_status_of_nothing_is_stopped_and_not_a_success(lily: CommandLine, tmp_path: Path) -> None:
    answer = lily.run("status", "--json", "--data-dir", tmp_path)
    assert answer.code == 1
    assert json.loads(answer.stdout)["status"] == "stopped"
    assert json.loads(answer.stdout)["running"] is False


def test_purge_leaves_a_directory_alone_that_is_not_an_installation(
    lily: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    answer = lily.run("down", "--purge", "--data-dir", tmp_path)
    assert answer.code == 1
    assert "nothing was removed" in answer.stderr
    assert (tmp_path / "thesis.txt").exists()


def test_an_unknown_benchmark_or_log_is_refused_by_name(lily: CommandLine, tmp_path: Path) -> None:
    assert "'nonsense'" in lily.refusal("logs", "nonsense", "--data-dir", tmp_path)
    answer = lily.run("bench", "nonsense", "--data-dir", tmp_path)
    assert answer.code == 1
    assert "Traceback" not in answer.stderr


def test_the_static_checks_come_before_the_unit_tests_and_all_runs_every_stage() -> None:
    unit = [" ".join(step) for step in steps(Stage.UNIT, [])]
    expected = ["ruff check", "ruff format", "mypy", "lint_imports", "pytest tests/unit"]
    assert [name in step for name, step in zip(expected, unit, strict=True)] == [True] * 5
    everything = steps(Stage.ALL, ["-x"])
    stages = [f"tests/{stage}" for stage in ("unit", "integration", "e2e")]
    assert [(step[:3], step[-1]) for step in everything[-3:]] == [
        (["-m", "pytest", stage], "-x") for stage in stages
    ]
    assert steps(Stage.E2E, ["-k", "up"]) == [["-m", "pytest", "tests/e2e", "-k", "up"]]


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ('openjdk version "17.0.15" 2025-04-15', OK),
        ('java version "21.0.2" 2024-01-16 LTS', OK),
        ('java version "1.8.0_281"', FAIL),
        ('openjdk version "11.0.2"', FAIL),
        ("", FAIL),
    ],
)
def test_only_java_17_and_21_pass(answer: str, verdict: str) -> None:
    assert judge_java(answer)[0] == verdict


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    assert tail(log) == ""
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    assert tail(log, 2) == "line 98\nline 99"
