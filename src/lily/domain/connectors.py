"""What a connector is: a system a tenant connects Lily with, to hear from it, to tell it, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lily.domain.errors import InvalidInput

#: What a connector's secret is called when it has only one.
SECRET = "secret"
#: How a PostgreSQL may ask for a password unless its connector says otherwise: never as it is, nor in a way
#: from which it can be found out.
SAFE_AUTH = "!password,!md5"


@dataclass(frozen=True, slots=True)
class Connector:
    """One connection; `secrets` are the names of those it has, never what they are."""

    tenant_id: str
    connector_id: str
    type: str
    name: str
    config: Mapping[str, Any]
    is_disabled: bool
    secrets: tuple[str, ...]
    created_by: str
    created_at: datetime
    updated_at: datetime


def accept(_config: Mapping[str, Any]) -> None:
    """The check of a type that takes any configuration, or any secrets."""


@dataclass(frozen=True)
class ConnectorType:
    """A kind of system: the secrets it logs in with, each with whether it must have it, and how it is checked
    what is configured and which secrets are given (`InvalidInput` says what is wrong).

    `destinations` are the settings that say where secrets are sent, or as whom; None: any of them may."""

    name: str
    secrets: Mapping[str, bool] = field(default_factory=dict)
    check_config: Callable[[Mapping[str, Any]], None] = accept
    destinations: frozenset[str] | None = None
    check_secrets: Callable[[Mapping[str, str]], None] = accept

    def check_move(self, was: Mapping[str, Any], now: Mapping[str, Any], kept: Iterable[str]) -> None:
        """`InvalidInput` when a secret that is kept would go where it was not meant to: who may change a
        connector may not learn its secrets, and whoever gives one says where it goes."""
        names = set(was) | set(now) if self.destinations is None else self.destinations
        moved = sorted(name for name in names if was.get(name) != now.get(name))
        if moved and (secrets := sorted(kept)):
            raise _wrong(
                "/secret",
                f"another {moved[0]!r} is another place for {', '.join(secrets)}: give each again in the same"
                " request, or null to forget it",
            )

    def check(self, config: Mapping[str, Any], secrets: Iterable[str]) -> None:
        """`InvalidInput` unless a connector of this type may be like this; secrets by name."""
        given = set(secrets)
        if unknown := sorted(given - set(self.secrets)):
            known = ", ".join(self.secrets) or "none"
            raise _wrong("/secret", f"{self.name} has no secret {unknown[0]!r}; it has: {known}")
        for name, is_needed in self.secrets.items():
            if is_needed and name not in given:
                raise _wrong("/secret", f"{self.name} needs the secret {name!r}")
        self.check_config(config)


class ConnectorTypes:
    """The types this installation knows."""

    def __init__(self, types: Iterable[ConnectorType]) -> None:
        self._types = {each.name: each for each in types}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._types))

    def of(self, name: str) -> ConnectorType:
        """The type with this name; `InvalidInput` lists those there are."""
        if name not in self._types:
            raise _wrong("/type", f"unknown type {name!r}; known: {', '.join(self.names)}")
        return self._types[name]


def _wrong(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput(f"{pointer}: {detail}", errors=[{"pointer": pointer, "detail": detail}])
