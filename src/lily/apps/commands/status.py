"""`lily status`: is it running, and how is every component."""

from __future__ import annotations

import json
from typing import Annotated, Any

import psutil  # type: ignore[import-untyped]  # ships no types
import typer

from lily.apps.commands.options import DataDir
from lily.apps.up import health, own_url
from lily.standalone.installations import Installation
from lily.standalone.states import State, last_state, process_clock, running_state

MEGABYTE = 1_000_000


def status(
    data_dir: DataDir,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, for programs.")] = False,
) -> None:
    """Show every component; exits 0 only when all are healthy."""
    installation = Installation.at(data_dir)
    report = describe(installation)
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        _print(report)
    if report["status"] != "healthy":
        raise typer.Exit(1)


def describe(installation: Installation) -> dict[str, Any]:
    """The supervisor's view of the processes and the gateway's view of the components, side by side."""
    running = running_state(installation)
    report: dict[str, Any] = {"data_dir": str(installation.data_dir), "running": running is not None}
    if running is None:
        last = last_state(installation)
        return {**report, "status": "stopped", "error": last.error if last else ""}
    answer = health(running.port) or {"status": "starting" if running.phase == "starting" else "unreachable"}
    return {
        **report,
        **answer,
        "phase": running.phase,
        "url": own_url(running.port),
        "pid": running.pid,
        "processes": {name: _process(running, name) for name in running.parts},
    }


def _process(running: State, name: str) -> dict[str, Any]:
    part = running.parts[name]
    pid = running.children.get(name, 0)
    uptime = round(process_clock() - part["started_at"], 1) if pid else 0.0
    return {**part, "pid": pid, "uptime_s": uptime, "resident_mb": _resident(pid)}


def _resident(pid: int) -> int:
    """Megabytes of the process and its descendants; shared pages count once for each."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)] if pid else []
        return sum(int(member.memory_info().rss) for member in family) // MEGABYTE
    except psutil.Error:
        return 0


def _print(report: dict[str, Any]) -> None:
    print(f"{report['status']:<12} {report.get('url', '')}  {report['data_dir']}".rstrip())
    for name, process in report.get("processes", {}).items():
        life = f"pid {process['pid']}, up {process['uptime_s']:.0f} s, {process['resident_mb']} MB"
        print(f"  {name:<12} {process['state']:<10} {life}, {process['restarts']} restarts")
    for name, component in report.get("components", {}).items():
        rest = ", ".join(f"{key} {value}" for key, value in component.items() if key != "status")
        print(f"  {name:<12} {component.get('status', ''):<10} {rest}".rstrip())
    if report.get("error"):
        print(report["error"])
