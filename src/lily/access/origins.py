"""Where a request comes from: its address, believing a forwarded one only from a proxy we know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from fastapi.requests import HTTPConnection

from lily.domain.errors import MisconfiguredError

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address
#: Of an address as text, in brackets and with a zone.
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class Origin:
    """From where, and under which trace."""

    address: str
    trace_id: str


def read_networks(text: str, variable: str) -> tuple[Network, ...]:
    """The networks a setting lists."""
    try:
        return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise MisconfiguredError(f"{variable}: {error}; list networks such as 10.0.0.0/8,::1/128") from None


def origin_of(request: HTTPConnection) -> Origin:
    """The origin of a request to the gateway's application."""
    peer = request.client.host if request.client else ""
    forwarded = ",".join(request.headers.getlist("x-forwarded-for"))
    address = client_address(peer, forwarded, request.app.state.proxies)
    return Origin(address, request.state.trace_id)


def client_address(peer: str, forwarded: str, proxies: Sequence[Network]) -> str:
    """The last address on the way here that is not our proxy's: anybody can write what is before it."""
    address = _parsed(peer)
    hops = forwarded.split(",") if forwarded else []
    while hops and address and any(address in proxy for proxy in proxies):
        hop = _parsed(hops.pop())
        if hop is None:
            break
        address = hop
    return str(address) if address else ""


def _parsed(text: str) -> Address | None:
    return _read(text) if len(text) <= _LONGEST else None


@lru_cache(4096)
def _read(text: str) -> Address | None:
    try:
        address = ip_address(text.strip().removeprefix("[").partition("]")[0].partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address
