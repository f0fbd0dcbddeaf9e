"""Which addresses of databases Lily connects to: those of a company's networks too, but no odd ones.

Databases live in private networks, and who registers one administers the tenant; so unlike a webhook's, a
private address is nothing unusual. What no database ever has is refused: the addresses by which clouds tell
machines their credentials, those of nobody, and those of many. The address that was judged is the one that is
connected to.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

from lily.domain.errors import LilyError

Address = IPv4Address | IPv6Address


class TargetRefused(LilyError):
    """Lily does not connect to this address."""

    code = "target_refused"


def reach(host: str, port: int) -> str:
    """The address to connect to; one that is refused refuses the name."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise TargetRefused(f"{host} cannot be resolved: {error}; check the connector's host") from error
    addresses = [ip_address(str(info[4][0]).partition("%")[0]) for info in found]
    for address in addresses:
        if _is_odd(address):
            raise TargetRefused(f"{host} is {address}, where no database is; check the connector's host")
    return str(addresses[0])


def _is_odd(address: Address) -> bool:
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    judged = inner or address
    return (
        judged.is_link_local
        or judged.is_multicast
        or judged.is_unspecified
        or (judged.is_reserved and not judged.is_loopback)
    )
