"""`lily replay`: rebuild from the log, and from the lake where the log no longer reaches."""

from __future__ import annotations

from typing import Annotated

import typer

from lily.apps.commands.options import DataDir, say
from lily.domain.errors import MisconfiguredError
from lily.standalone.installations import Installation
from lily.standalone.states import running_state


def replay(
    data_dir: DataDir,
    reset: Annotated[
        bool, typer.Option("--reset", help="Also forget all assets and their history, and rebuild them.")
    ] = False,
) -> None:
    """Read the log from the beginning at the next start; events already counted change nothing."""
    from lily.pipeline.replay import forget, restore_from_lake  # slow to import
    from lily.pipeline.session import start_session
    from lily.settings import load_settings
    from lily.standalone.services import start_services

    installation = Installation.at(data_dir)
    if running_state(installation):
        raise MisconfiguredError(f"Lily runs on {installation.data_dir}; stop it first with `./lily down`")
    services = start_services(installation.data_dir)
    try:
        settings = load_settings(installation.data_dir)
        forget(settings, reset=reset)
        if reset:
            say("Restoring from the lake what the log no longer holds …")
            session = start_session(settings)
            say(f"Restored {restore_from_lake(session, settings)} events.")
            session.stop()
    finally:
        services.stop()
    say("Ready: `./lily up` reads the log from the beginning.")
