"""`lily token`: a bearer token for this installation."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from lily.access.roles import DEFAULT_ROLES
from lily.apps.commands.acts import note
from lily.apps.commands.options import OPERATOR, DataDir, checked_role, checked_tenant, say
from lily.domain.errors import MisconfiguredError
from lily.standalone.environment import configure, read_environment
from lily.standalone.installations import Installation

SECRET = "LILY_AUTH_SECRET"
WEEK = 7 * 24 * 3600


def token(
    data_dir: DataDir,
    tenant: Annotated[str, typer.Option(help="The tenant the bearer acts for.")],
    role: Annotated[str, typer.Option(help=f"One of {', '.join(DEFAULT_ROLES)}.")],
    subject: Annotated[str, typer.Option(help="Who bears it; shown in the audit.")] = OPERATOR,
    ttl_seconds: Annotated[int, typer.Option(min=1, help="How long it is valid.")] = WEEK,
) -> None:
    """Print a bearer token, alone on the last line."""
    made = local_token(Installation.at(data_dir), tenant, role, subject, ttl_seconds)
    try:
        note(data_dir, tenant, "create", ("token", subject), f"role {role} for {ttl_seconds} s")
    except MisconfiguredError:  # here is nothing but the key; of what it signs the installation cannot know
        say("This token is not in the audit: the installation is not on this machine.")
    print(made)


def local_token(
    installation: Installation,
    tenant: str,
    role: str,
    subject: str = OPERATOR,
    ttl_seconds: int = WEEK,
) -> str:
    """A token signed with the installation's own key."""
    from lily.access.tokens import mint_token  # slow to import

    tenant, role = checked_tenant(tenant), checked_role(role)
    return mint_token(_secret(installation), tenant, role, subject, ttl_seconds)


def _secret(installation: Installation) -> str:
    """The key; an installation that was never started gets its settings now and keeps them."""
    known = os.environ.get(SECRET) or read_environment(installation).get(SECRET)
    return known or configure(installation)[SECRET]
