"""`lily logs`: what the components wrote."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lily.apps.commands.options import DataDir
from lily.domain.errors import NotFound
from lily.standalone.installations import Installation
from lily.standalone.logfiles import follow, tail


def logs(
    data_dir: DataDir,
    component: Annotated[
        str, typer.Argument(help="kafka, postgres, streams, gateway …; all when left out.")
    ] = "",
    following: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is written later.")
    ] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = 50,
) -> None:
    """Show the end of a component's log."""
    installation = Installation.at(data_dir)
    known = sorted(log.stem for log in installation.logs.glob("*.log"))
    if (component or following) and component not in known:
        raise NotFound(
            f"no log of component {component!r} in {installation.logs}; known: {', '.join(known) or 'none'}"
        )
    for name in [component] if component else known:
        if not component:
            print(f"==> {name}")
        print(tail(installation.log(name), lines))
    if following:
        _follow(installation, component)


def _follow(installation: Installation, component: str) -> None:
    try:
        for text in follow(installation.log(component)):
            sys.stdout.write(text)
            sys.stdout.flush()
    except KeyboardInterrupt:
        return
