"""When a policy applies: windows of time, networks and purposes; read as data, never run as code."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from lily.domain.errors import InvalidInput

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MAX_ENTRIES = 64
MAX_PURPOSE = 128

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known about a call besides who makes it; an empty text means unknown."""

    at: datetime
    address: str = ""
    purpose: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """Hours of some days in a zone, between two instants; one that ends before it begins passes midnight."""

    zone: str = "UTC"
    days: tuple[str, ...] = DAYS
    begin: time = time(0)
    end: time = time(0)
    not_before: datetime | None = None
    not_after: datetime | None = None

    def covers(self, at: datetime) -> bool:
        if (self.not_before and at < self.not_before) or (self.not_after and at >= self.not_after):
            return False
        local = at.astimezone(ZoneInfo(self.zone))
        now, today = local.time(), DAYS[local.weekday()]
        if self.begin < self.end:
            return today in self.days and self.begin <= now < self.end
        yesterday = DAYS[local.weekday() - 1]
        return (now >= self.begin and today in self.days) or (now < self.end and yesterday in self.days)


@dataclass(frozen=True, slots=True)
class Conditions:
    """All that is said must hold; of several windows, networks or purposes one is enough."""

    windows: tuple[Window, ...] = ()
    inside: tuple[Network, ...] = ()
    outside: tuple[Network, ...] = ()
    purposes: tuple[str, ...] = ()

    @property
    def limit(self) -> bool:
        """Whether anything is said at all."""
        return bool(self.windows or self.inside or self.outside or self.purposes)

    def hold(self, circumstances: Circumstances) -> bool | None:
        """None when that depends on something the circumstances do not tell."""
        verdicts = (
            self._time_holds(circumstances.at),
            self._network_holds(_address(circumstances.address)),
            self._purpose_holds(circumstances.purpose),
        )
        if False in verdicts:
            return False
        return None if None in verdicts else True

    def _time_holds(self, at: datetime) -> bool:
        return not self.windows or any(window.covers(at) for window in self.windows)

    def _network_holds(self, address: Address | None) -> bool | None:
        if not self.inside and not self.outside:
            return True
        if address is None:
            return None
        inside = not self.inside or any(address in network for network in self.inside)
        return inside and not any(address in network for network in self.outside)

    def _purpose_holds(self, purpose: str) -> bool | None:
        if not self.purposes:
            return True
        return purpose in self.purposes if purpose else None


UNCONDITIONAL = Conditions()


@lru_cache(maxsize=4096)
def _address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def read_conditions(document: object) -> Conditions:
    """The conditions a JSON document describes; `InvalidInput` says where and what is allowed."""
    given = _mapping(document, "/conditions", ("time", "network", "purpose"))
    network = _mapping(given.get("network", {}), "/conditions/network", ("in", "not_in"))
    return Conditions(
        windows=tuple(
            _window(each, f"/conditions/time/{index}")
            for index, each in enumerate(_list(given.get("time", []), "/conditions/time"))
        ),
        inside=_networks(network, "in"),
        outside=_networks(network, "not_in"),
        purposes=tuple(_texts(given.get("purpose", []), "/conditions/purpose", MAX_PURPOSE)),
    )


def _window(document: object, pointer: str) -> Window:
    given = _mapping(document, pointer, ("zone", "days", "from", "until", "not_before", "not_after"))
    if not given:
        raise _invalid(
            pointer, "a window says at least one of zone, days, from, until, not_before, not_after"
        )
    begin, end = _clock(given, "from", pointer), _clock(given, "until", pointer)
    if begin == end and begin != time(0):
        raise _invalid(pointer, "from and until are the same; leave both out for whole days")
    days = _texts(given.get("days", list(DAYS)), f"{pointer}/days", 3)
    if unknown := sorted(set(days) - set(DAYS)):
        raise _invalid(f"{pointer}/days", f"unknown {', '.join(unknown)}; known: {', '.join(DAYS)}")
    not_before, not_after = _instant(given, "not_before", pointer), _instant(given, "not_after", pointer)
    if not_before and not_after and not_before >= not_after:
        raise _invalid(pointer, "not_before must be before not_after")
    return Window(_zone(given.get("zone", "UTC"), pointer), tuple(days), begin, end, not_before, not_after)


def _zone(name: object, pointer: str) -> str:
    try:
        return ZoneInfo(str(name)).key
    except (KeyError, ValueError, OSError):  # an unknown name, a path out of the database, a directory
        raise _invalid(f"{pointer}/zone", f"{str(name)[:64]!r} is no zone such as Europe/Berlin") from None


def _clock(given: Mapping[str, Any], name: str, pointer: str) -> time:
    text = given.get(name, "00:00")
    try:
        if not isinstance(text, str) or len(text) != 5:
            raise ValueError
        return time.fromisoformat(text)
    except ValueError:
        raise _invalid(f"{pointer}/{name}", f"must be a time such as 08:30, not {str(text)[:64]!r}") from None


def _instant(given: Mapping[str, Any], name: str, pointer: str) -> datetime | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(str(text)).astimezone(UTC) if "T" in str(text) else None
    except (ValueError, OverflowError):
        instant = None
    if instant is None or instant.microsecond:
        raise _invalid(
            f"{pointer}/{name}",
            f"must be a whole second such as 2026-01-31T12:00:00Z, not {str(text)[:64]!r}",
        )
    return instant


def _networks(given: Mapping[str, Any], name: str) -> tuple[Network, ...]:
    pointer = f"/conditions/network/{name}"
    networks: list[Network] = []
    for index, text in enumerate(_texts(given.get(name, []), pointer, 64)):
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise _invalid(f"{pointer}/{index}", f"{error}; write it as 10.0.0.0/8 or fd00::/8") from None
    return tuple(networks)


def _mapping(document: object, pointer: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(document, dict):
        raise _invalid(pointer, f"must be an object with {', '.join(known)}")
    if unknown := sorted(str(name) for name in document if name not in known):
        raise _invalid(pointer, f"unknown {', '.join(unknown)[:128]}; known: {', '.join(known)}")
    return document


def _list(document: object, pointer: str) -> list[Any]:
    if not isinstance(document, list) or len(document) > MAX_ENTRIES:
        raise _invalid(pointer, f"must be a list of at most {MAX_ENTRIES} entries")
    return document


def _texts(document: object, pointer: str, longest: int) -> list[str]:
    entries = _list(document, pointer)
    for index, entry in enumerate(entries):
        if not isinstance(entry, str) or not 1 <= len(entry) <= longest or not entry.isprintable():
            raise _invalid(f"{pointer}/{index}", f"must be printable text of 1 to {longest} characters")
    return entries


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput(f"{pointer}: {detail}", errors=[{"pointer": pointer, "detail": detail}])
