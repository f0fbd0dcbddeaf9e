"""`lily up`: start an installation and say how to use it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Annotated

import typer

from lily.apps.commands.demo import set_up_demo
from lily.apps.commands.options import DataDir, say
from lily.apps.commands.token import local_token
from lily.apps.up import own_url, refuse_busy, supervise
from lily.domain.errors import LilyError, Unavailable
from lily.standalone.artefacts import ensure
from lily.standalone.environment import preferred_port, read_environment
from lily.standalone.installations import Installation
from lily.standalone.logfiles import tail
from lily.standalone.states import State, end_leftovers, last_state, running_state

HEALTHY_SECONDS = 180.0
DEMO_TENANT = "demo"


def up(
    data_dir: DataDir,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Public port; 8080 at first, then the last one used.")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return when everything is healthy.")] = False,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="With a tenant to look at: a warehouse, lineage, an incident, a rule."),
    ] = False,
) -> None:
    """Set up what is missing, start everything and print the URL and a token."""
    installation = Installation.at(data_dir)
    running = running_state(installation)
    if running:
        return _say_running(installation, running, demo=demo)
    installation.refuse_foreign()
    chosen = port or preferred_port(read_environment(installation))
    end_leftovers(installation)
    refuse_busy(chosen)
    _download()
    if detach:
        return _detach(installation, chosen, demo=demo)
    return supervise(installation, chosen, lambda: _greet(installation, chosen, demo=demo))


def _say_running(installation: Installation, running: State, *, demo: bool) -> None:
    if running.phase == "starting":
        _wait_until_healthy(installation, running.pid)
    say(f"Lily already runs on {installation.data_dir}.")
    if demo:
        set_up_demo(installation)
    _welcome(installation, running.port)


def _greet(installation: Installation, port: int, *, demo: bool) -> None:
    """Say how to use it; the demo is made beside, while the supervisor watches over the parts."""
    if not demo:
        return _welcome(installation, port)

    def make() -> None:
        try:
            set_up_demo(installation)
        except LilyError as error:
            say(f"error: {error.message}")
        _welcome(installation, port)

    return threading.Thread(target=make, daemon=True).start()


def _download() -> None:
    """Fetch in the foreground, where the progress is seen, what is needed later in the background."""
    ensure("kafka")
    ensure("spark")


def _detach(installation: Installation, port: int, *, demo: bool) -> None:
    installation.create()
    command = [sys.executable, "-m", "lily.apps.up", "--data-dir", str(installation.data_dir)]
    with installation.log("supervisor").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _wait_until_healthy(installation, process.pid, process)
    if demo:
        set_up_demo(installation)
    _welcome(installation, port)


def _wait_until_healthy(
    installation: Installation, pid: int, process: subprocess.Popen[bytes] | None = None
) -> None:
    started = time.monotonic()
    seen: dict[str, str] = {}
    while time.monotonic() - started < HEALTHY_SECONDS:
        state = last_state(installation)
        if state and state.pid == pid:
            _say_news(state, seen, time.monotonic() - started)
            if state.phase == "running":
                return
        if (process and process.poll() is not None) or (not process and not running_state(installation)):
            raise Unavailable(_why_not(installation, pid))
        time.sleep(0.1)
    raise Unavailable(
        f"Lily is not healthy after {HEALTHY_SECONDS:.0f} s; it goes on trying. See `./lily status` and "
        f"`./lily logs`, stop it with `./lily down --data-dir {installation.data_dir}`."
    )


def _say_news(state: State, seen: dict[str, str], elapsed: float) -> None:
    for name, part in state.parts.items():
        if seen.get(name) != part["state"]:
            seen[name] = part["state"]
            say(f"  {elapsed:5.1f} s  {name:<9} {part['state']}")


def _why_not(installation: Installation, pid: int) -> str:
    state = last_state(installation)
    if state and state.pid == pid and state.error:
        return state.error
    log = installation.log("supervisor")
    return f"Lily did not start; the end of {log}:\n{tail(log)}"


def _welcome(installation: Installation, port: int) -> None:
    url = own_url(port)
    token = local_token(installation, DEMO_TENANT, "owner")
    asset = (
        '{"asset_name": "orders", "asset_type": "table", "data_source": "shop", "external_id": "shop.orders"}'
    )
    print(f"\nLily is healthy at {url}  (API: {url}/lily/v1, contract: {url}/openapi.json)")
    print(f"A token for tenant {DEMO_TENANT!r}, role owner:\n\n  {token}\n\nSend the first fact:\n")
    print(f"  curl -sS {url}/lily/v1/metadata -H 'Content-Type: application/json' \\")
    print(f"    -H 'Authorization: Bearer {token}' \\\n    -d '{asset}'\n", flush=True)
