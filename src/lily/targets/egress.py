"""The one way out: requests to addresses somebody configured go to public places only.

The address is judged where the connection is made, on what it is made to, so a name that resolves to
something else a moment later gains nothing. Redirects are not followed, and no proxy is used.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

import httpcore

from lily.domain.errors import LilyError, MisconfiguredError

ATTEMPT_SECONDS = 15.0
CONNECT_SECONDS = 5.0
_KEEP_SECONDS = 60.0
#: More of an answer is not read: it is only for people to look at.
_MOST_READ = 64 * 1024
_NAT64 = ip_network("64:ff9b::/96")
#: All of IPv6 that the Internet was given; what lies outside is local, or a spelling of something else.
_UNICAST = ip_network("2000::/3")

Address = IPv4Address | IPv6Address
Options = Iterable[tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]]


class EgressRefused(LilyError):
    """The address is not one Lily sends to; `LILY_TARGETS_ALLOW` lists exceptions."""

    code = "egress_refused"


class EgressFailed(LilyError):
    """No answer; `is_certain` says that nothing has reached the other side."""

    code = "egress_failed"
    retryable = True

    def __init__(self, message: str, *, is_certain: bool) -> None:
        super().__init__(message)
        self.is_certain = is_certain


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


class AllowList:
    """The operator's exceptions: networks and host names of receivers in the house."""

    def __init__(self, text: str) -> None:
        entries = [entry.strip().lower() for entry in text.split(",") if entry.strip()]
        self._networks: list[IPv4Network | IPv6Network] = []
        self._hosts: set[str] = set()
        for entry in entries:
            try:
                self._networks.append(ip_network(entry))
            except ValueError:
                self._hosts.add(_host(entry))

    def names(self, host: str) -> bool:
        return host.lower().rstrip(".") in self._hosts

    def holds(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def _host(entry: str) -> str:
    if "/" in entry or ":" in entry or " " in entry:
        raise MisconfiguredError(
            f"LILY_TARGETS_ALLOW: {entry!r} is neither a network such as 10.1.0.0/16 nor a host name"
        )
    return entry.rstrip(".")


def is_public(address: Address) -> bool:
    """Whether the address is one of the Internet's, also when it hides in another one."""
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if address.sixtofour is not None and not is_public(address.sixtofour):
        return False
    return address in _UNICAST and address.teredo is None and address.is_global


class _Guarded(httpcore.AsyncNetworkBackend):
    """Connects to addresses that were judged, and to nothing else."""

    def __init__(self, allow: AllowList, resolver: ThreadPoolExecutor, *, only_allowed: bool) -> None:
        self._allow = allow
        self._resolver = resolver
        self._only_allowed = only_allowed
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Options | None = None,  # noqa: ARG002 - the interface's
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception | None = None
        for address in await self._judged(host, port):
            try:
                return await self._network.connect_tcp(str(address), port, timeout, local_address)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError(f"{host} has no address")

    async def _judged(self, host: str, port: int) -> list[Address]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._resolver, resolve, host, port)
        except OSError as error:
            raise httpcore.ConnectError(f"{host} cannot be resolved: {error}") from error
        if not self._allow.names(host):
            for address in found:
                self._judge(host, address)
        return found

    def _judge(self, host: str, address: Address) -> None:
        """One address that is refused refuses the name: who mixes them has no honest reason."""
        if self._allow.holds(address):
            return
        if self._only_allowed:
            raise EgressRefused(f"{host} must be told over https; an operator can allow it without")
        if not is_public(address):
            raise EgressRefused(
                f"{host} is {address}, which is not a public address; an operator can allow it in "
                "LILY_TARGETS_ALLOW"
            )

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


def resolve(host: str, port: int) -> list[Address]:
    """The addresses of a host, each once; an address in brackets or with a zone is none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(str(info[4][0]).partition("%")[0]) for info in found))


class Egress:
    """Makes the clients of targets; one per process."""

    def __init__(self, allow: AllowList) -> None:
        self._allow = allow
        self._resolver = ThreadPoolExecutor(16, "resolver")

    def close(self) -> None:
        self._resolver.shutdown(wait=False, cancel_futures=True)

    def client(self, connections: int, tls: ssl.SSLContext | None = None) -> EgressClient:
        """A client for one target with at most so many connections."""
        pools = {
            scheme: httpcore.AsyncConnectionPool(
                ssl_context=tls or ssl.create_default_context(),
                max_connections=connections,
                keepalive_expiry=_KEEP_SECONDS,
                network_backend=_Guarded(self._allow, self._resolver, only_allowed=scheme == "http"),
            )
            for scheme in ("https", "http")
        }
        return EgressClient(pools)


class EgressClient:
    def __init__(self, pools: Mapping[str, httpcore.AsyncConnectionPool]) -> None:
        self._pools = pools

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes = b""
    ) -> Answer:
        """The answer, whatever its status; `EgressRefused` or `EgressFailed` when there is none."""
        pool = self._pools[check_url(url)]
        timeout = dict.fromkeys(("read", "write", "pool"), ATTEMPT_SECONDS) | {"connect": CONNECT_SECONDS}
        try:
            async with (
                asyncio.timeout(ATTEMPT_SECONDS),
                pool.stream(
                    method,
                    url,
                    headers=list({"user-agent": "Lily", **headers}.items()),
                    content=content,
                    extensions={"timeout": timeout},
                ) as response,
            ):
                body = await _beginning(response)
        except (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout) as error:
            raise EgressFailed(f"no connection: {_said(error)}", is_certain=True) from error
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            raise EgressFailed(f"no answer: {_said(error)}", is_certain=False) from error
        except TimeoutError as error:
            raise EgressFailed(f"no answer within {ATTEMPT_SECONDS:.0f} s", is_certain=False) from error
        told = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        return Answer(response.status, told, body)

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()


def check_url(url: str) -> str:
    """The scheme of an address Lily may send to; `EgressRefused` says what is wrong with it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise EgressRefused(f"the address cannot be read: {error}") from None
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        raise EgressRefused("the address must be an https URL with a host")
    if parts.username is not None or parts.password is not None:
        raise EgressRefused("the address must not carry a user or a password")
    return parts.scheme


async def _beginning(response: httpcore.Response) -> bytes:
    read = bytearray()
    async for chunk in response.aiter_stream():
        read += chunk
        if len(read) >= _MOST_READ:
            break
    return bytes(read[:_MOST_READ])


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
