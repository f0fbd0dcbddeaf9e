"""Options and answers that several commands share."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lily.access.roles import DEFAULT_ROLES
from lily.domain.errors import InvalidInput
from lily.domain.tenants import is_tenant_name
from lily.standalone.installations import Installation

if TYPE_CHECKING:
    from lily.settings import Settings

#: Who does what commands do, in the audit and wherever else somebody is named.
OPERATOR = "local-operator"

DataDir = Annotated[
    Path,
    typer.Option(
        "--data-dir",
        envvar="LILY_DATA_DIR",
        help="Where this installation keeps everything.",
        default_factory=lambda: default_data_dir(),
        show_default="~/.local/share/lily",
    ),
]


def default_data_dir() -> Path:
    """The user's place for data."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "lily"


def settings_of(data_dir: Path) -> Settings:
    """The settings of the installation there."""
    from lily.settings import load_settings  # slow to import

    return load_settings(Installation.at(data_dir).data_dir)


def say(line: str) -> None:
    """Progress and notes; results alone go to standard output."""
    sys.stderr.write(f"{line}\n")  # one write: parts start in parallel and report from their threads
    sys.stderr.flush()


def checked_tenant(name: str) -> str:
    """The tenant's name, if it is one."""
    if not is_tenant_name(name):
        raise InvalidInput(
            f"tenant {name!r} is not a name: 1 to 63 letters, digits, '_', '-' or '.'", tenant=name
        )
    return name


def checked_role(role: str) -> str:
    """The role, if it is known."""
    if role not in DEFAULT_ROLES:
        raise InvalidInput(f"unknown role {role!r}; known: {', '.join(DEFAULT_ROLES)}", role=role)
    return role
