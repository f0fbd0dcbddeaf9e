"""`lily secrets`: the keys that encrypt the secrets of connectors and targets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from lily.apps.commands.acts import note
from lily.apps.commands.options import DataDir, say, settings_of
from lily.domain.audit import INSTALLATION

secrets = typer.Typer(help="The keys that encrypt secrets at rest.", no_args_is_help=True)


@secrets.command("new-key")
def make_key(
    key_id: Annotated[str, typer.Option("--id", help="Its id; the time by default.")] = "",
) -> None:
    """Print a fresh key: put it last in LILY_SECRETS_KEYS everywhere, then first, then run `rotate`."""
    from lily.repositories.keyrings import new_key  # slow to import

    print(new_key(key_id or f"{datetime.now(UTC):%Y%m%d%H%M%S}"))


@secrets.command()
def rotate(data_dir: DataDir) -> None:
    """Wrap every secret with the first key of the ring; afterwards the others are no longer needed."""
    from lily.repositories.keyrings import open_keyring  # slow to import
    from lily.repositories.postgres.secrets import rotate_keys

    settings = settings_of(data_dir)
    keyring = open_keyring(settings.secrets)
    rotated = rotate_keys(settings.database.url.get_secret_value(), keyring)
    note(data_dir, INSTALLATION, "rotate", ("secret", keyring.current), f"{rotated} wrapped anew")
    say(
        f"{rotated} secret{'' if rotated == 1 else 's'} wrapped anew; all are wrapped by {keyring.current!r}."
    )
