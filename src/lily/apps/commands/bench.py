"""`lily bench`: run a benchmark of the source tree's `bench/` folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from lily.apps.commands.options import DataDir
from lily.domain.errors import MisconfiguredError, NotFound

ROOT = Path(__file__).parents[4]


def bench(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Which benchmark; --help after it lists its options.")],
    data_dir: DataDir,
) -> None:
    """Run a benchmark; further arguments, such as --json FILE, are its own."""
    known = sorted(file.stem for file in (ROOT / "bench").glob("*.py") if not file.stem.startswith("_"))
    if not known:
        raise MisconfiguredError("the benchmarks are part of the source tree; run ./lily from a checkout")
    if name not in known:
        raise NotFound(f"unknown benchmark {name!r}; known: {', '.join(known)}", name=name)
    command = [sys.executable, "-m", f"bench.{name}", "--data-dir", str(data_dir.absolute()), *context.args]
    # The vendors' fakes that some benchmarks send to are those of the tests.
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), str(ROOT / "tests")])
    raise typer.Exit(subprocess.run(command, env={**os.environ, "PYTHONPATH": path}).returncode)
