"""What a benchmark tells: a table for people, JSON for programs, and the machine it ran on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # ships no types

Figures = dict[str, Any]


def report(title: str, figures: Figures, json_file: Path | None) -> None:
    """Print the figures and write them with the machine's description."""
    whole = {**figures, "machine": machine()}
    print(f"\n{title}")
    for name, value in _flat(whole):
        print(f"  {name:<40} {value}")
    if json_file:
        json_file.write_text(json.dumps(whole, indent=2) + "\n")
        print(f"\nWritten to {json_file}.")


def _flat(figures: Figures, prefix: str = "") -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for name, value in figures.items():
        if isinstance(value, dict):
            lines += _flat(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            whole = isinstance(value, int) and not isinstance(value, bool)
            lines.append((prefix + name, f"{value:,}" if whole else str(value)))
    return lines


def machine() -> Figures:
    """The hardware and the versions that the figures depend on."""
    return {
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "cpu_model": _cpu_model(),
        "load_average_1m": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "java": _java_version(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _java_version() -> str:
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path("java")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except OSError:
        return "not found"
    return done.stderr.splitlines()[0] if done.stderr else "unknown"
