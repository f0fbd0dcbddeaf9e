"""`lily demo`: what the analyst of the demo sees, and an incident to look at."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated

import typer

from lily.apps.commands.options import DataDir, say
from lily.apps.commands.token import local_token
from lily.domain.errors import InvalidInput
from lily.standalone.environment import DATABASE_URL, read_environment
from lily.standalone.installations import Installation
from lily.standalone.states import running_state

if TYPE_CHECKING:
    from lily.apps.demo import Demo
    from lily.apps.demo_warehouse import Warehouse

demo = typer.Typer(help="The demo's warehouse, after `lily up --demo`.", no_args_is_help=True)


@demo.command()
def query(
    data_dir: DataDir,
    text: Annotated[str, typer.Argument(metavar="SQL", help="Such as: SELECT * FROM customers")],
) -> None:
    """Run SQL in the demo's warehouse as its analyst, and print what comes back."""
    import psycopg

    try:
        names, rows = _warehouse(Installation.at(data_dir)).query(text)
    except psycopg.Error as error:
        raise InvalidInput(f"PostgreSQL says: {str(error).strip()}") from None
    cells = [names, *([str(value) if value is not None else "" for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(names))]
    for row in cells:
        print("  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip())


@demo.command()
def asset(
    _data_dir: DataDir,
    name: Annotated[str, typer.Argument(help="A table or column: customers, customers.email.")],
) -> None:
    """Print the asset id of a table or column of the demo's warehouse, alone on the last line."""
    from lily.apps.demo import asset_id

    print(asset_id(name))


@demo.command()
def incident(data_dir: DataDir) -> None:
    """Send the webhook Monte Carlo would send about the table orders, signed, and print the answer."""
    print(json.dumps(open_demo(Installation.at(data_dir)).report_incident("orders")))


def open_demo(installation: Installation) -> Demo:
    """The demo of an installation that runs."""
    from lily.apps.demo import TENANT, Demo

    running = running_state(installation)
    if running is None:
        raise InvalidInput(f"nothing runs on {installation.data_dir}; start it with `lily up --demo`")
    return Demo(running.port, local_token(installation, TENANT, "owner"), _warehouse(installation))


def set_up_demo(installation: Installation) -> None:
    """Make the demo, or see that it is there."""
    say("Setting up the demo …")
    open_demo(installation).set_up()


def _warehouse(installation: Installation) -> Warehouse:
    from lily.apps.demo_warehouse import Passwords, Warehouse

    url = os.environ.get(DATABASE_URL) or read_environment(installation).get(DATABASE_URL, "")
    return Warehouse(url, Passwords.of(installation.data_dir))
