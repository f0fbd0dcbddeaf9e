"""What a target is: one file with a `TargetType`, here or in a package of its own (docs/delivery.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol

from lily.domain.connectors import Connector, ConnectorType
from lily.domain.deliveries import Receipt, Shipment
from lily.domain.errors import MisconfiguredError
from lily.targets.egress import Egress

#: Outside packages name their `TargetType` under this group of entry points.
GROUP = "lily.targets"
_OWN = ("lily.targets.slack", "lily.targets.webhooks")


class Target(Protocol):
    """One connector, ready to be told something.

    One that `keeps_groups` is told where it showed a group's first message, and gets the others after it.
    """

    keeps_groups: bool

    async def send(self, shipment: Shipment) -> Receipt:
        """What came of one attempt. It may be tried again with the same `delivery_id`; whatever cannot be
        sent is a receipt too, not an exception."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Opening:
    """What a target is made from; everything it sends goes through `egress`."""

    connector: Connector
    secrets: Mapping[str, str]
    egress: Egress


@dataclass(frozen=True)
class TargetType:
    """A kind of target, by its type of connector. `open` raises `InvalidInput` when a secret is of no use."""

    connector: ConnectorType
    open: Callable[[Opening], Target]

    @property
    def name(self) -> str:
        return self.connector.name


@cache
def target_types() -> Mapping[str, TargetType]:
    """The types of this installation, by name: Lily's own and those of installed packages."""
    found = {type_.name: type_ for type_ in (import_module(name).TARGET for name in _OWN)}
    for entry in entry_points(group=GROUP):
        type_ = entry.load()
        if not isinstance(type_, TargetType):
            raise MisconfiguredError(f"the entry point {entry.name!r} of {GROUP} must be a TargetType")
        if type_.name in found:
            raise MisconfiguredError(f"there is a target {type_.name!r} already; rename {entry.value}")
        found[type_.name] = type_
    return found
