"""The command line: a table of commands, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import sys

import typer

from lily.apps.commands.audit import audit
from lily.apps.commands.bench import bench
from lily.apps.commands.checks import run_tests
from lily.apps.commands.connector import connector
from lily.apps.commands.deliveries import deliveries
from lily.apps.commands.demo import demo
from lily.apps.commands.dlq import dlq
from lily.apps.commands.doctor import doctor
from lily.apps.commands.down import down
from lily.apps.commands.enforce import enforce
from lily.apps.commands.key import key
from lily.apps.commands.lineage import lineage
from lily.apps.commands.logs import logs
from lily.apps.commands.migrate import migrate
from lily.apps.commands.policy import policy
from lily.apps.commands.protect import protect
from lily.apps.commands.replay import replay
from lily.apps.commands.scrape import scrape
from lily.apps.commands.secrets import secrets
from lily.apps.commands.status import status
from lily.apps.commands.tenant import tenant
from lily.apps.commands.token import token
from lily.apps.commands.up import up
from lily.apps.commands.user import user
from lily.domain.errors import LilyError

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(
    name="lily",
    help="Lily, a real-time metadata platform.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

for command in (up, down, status, logs, doctor, token, migrate, replay):
    app.command()(command)
app.add_typer(dlq, name="dlq")
app.add_typer(lineage, name="lineage")
app.add_typer(deliveries, name="deliveries")
app.add_typer(tenant, name="tenant")
app.add_typer(audit, name="audit")
app.add_typer(secrets, name="secrets")
app.add_typer(user, name="user")
app.add_typer(policy, name="policy")
app.add_typer(protect, name="protect")
app.add_typer(enforce, name="enforce")
app.add_typer(key, name="key")
connector.command()(scrape)
app.add_typer(demo, name="demo")
app.add_typer(connector, name="connector")
app.command(context_settings=PASS_ON)(bench)
app.command("test", context_settings=PASS_ON)(run_tests)


def main() -> None:
    """Run a command."""
    try:
        app(prog_name="lily")
    except LilyError as error:
        print(f"error: {error.message}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
