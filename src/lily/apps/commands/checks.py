"""`lily test`: the stages that CI runs, each only when the former passed."""

from __future__ import annotations

import os
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lily.apps.commands.options import DataDir, say
from lily.domain.errors import MisconfiguredError

ROOT = Path(__file__).parents[4]


class Stage(StrEnum):
    UNIT = "unit"
    INTEGRATION = "integration"
    E2E = "e2e"
    ALL = "all"


def run_tests(
    context: typer.Context,
    _data_dir: DataDir,
    stage: Annotated[Stage, typer.Argument(help="What to run.")] = Stage.ALL,
) -> None:
    """Run the tests, on installations of their own; further arguments go to pytest."""
    if not (ROOT / "tests").is_dir():
        raise MisconfiguredError("the tests are part of the source tree; run ./lily from a checkout")
    for step in steps(stage, context.args):
        say(f"── {' '.join(step)}")
        code = subprocess.run([sys.executable, *step], cwd=ROOT, env=_environment()).returncode
        if code != 0:
            raise typer.Exit(code)


def steps(stage: Stage, pytest_arguments: list[str]) -> list[list[str]]:
    """What Python runs, in order; the static checks belong to the unit stage."""
    chosen = [Stage.UNIT, Stage.INTEGRATION, Stage.E2E] if stage is Stage.ALL else [stage]
    tests = [["-m", "pytest", f"tests/{name}", *_SIDE_BY_SIDE[name], *pytest_arguments] for name in chosen]
    return [*_STATIC, *tests] if Stage.UNIT in chosen else tests


#: Some processes, each with services of its own, which mostly wait; a platform wants the machine for itself.
_SIDE_BY_SIDE = {
    Stage.UNIT: ["-n", "2"],
    Stage.INTEGRATION: ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"],
    Stage.E2E: [],
}

_STATIC = [
    ["-m", "ruff", "check", "."],
    ["-m", "ruff", "format", "--check", "."],
    ["-m", "mypy"],
    ["-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
