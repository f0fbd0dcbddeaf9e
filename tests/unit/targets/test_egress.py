"""The way out leads to public places only, whatever a name says or becomes."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_address
from typing import Any

import pytest

from lily.domain.errors import MisconfiguredError
from lily.targets import egress
from lily.targets.egress import AllowList, Egress, EgressFailed, EgressRefused, check_url, is_public

INSIDE = (
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "64:ff9b:1::7f00:1",
    "fec0::1",
    "::127.0.0.1",
    "::ffff:0:7f00:1",
    "4000::1",
)


@pytest.mark.parametrize("address", INSIDE)
def test_no_address_of_the_inside_is_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address", ["93.184.215.14", "2606:2800::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
)
def test_addresses_of_the_internet_are(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example.com",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://",
        "https://user:secret@example.com/",
        "https://@example.com/",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://[::1/",
        "gopher://127.0.0.1:6379/",
    ],
)
def test_what_is_no_address_of_a_receiver_is_refused(url: str) -> None:
    with pytest.raises(EgressRefused):
        check_url(url)


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Have names resolve to these, one answer after the other; what was connected to is returned."""
    connected: list[str] = []
    left = list(answers)

    def resolve(_host: str, _port: int) -> list[Any]:
        return [ip_address(each) for each in (left.pop(0) if len(left) > 1 else left[0])]

    async def connect(_self: Any, host: str, *_: Any, **__: Any) -> Any:
        connected.append(host)
        raise egress.httpcore.ConnectError("nobody there")

    monkeypatch.setattr(egress, "resolve", resolve)
    monkeypatch.setattr(egress.httpcore.AnyIOBackend, "connect_tcp", connect)
    return connected


def ask(url: str, allow: str = "") -> None:
    async def run() -> None:
        way = Egress(AllowList(allow))
        client = way.client(1)
        try:
            await client.request("POST", url, {})
        finally:
            await client.close()
            way.close()

    asyncio.run(run())


def test_a_name_that_is_rebound_after_it_was_judged_is_not_looked_up_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connected = resolving(monkeypatch, ["93.184.215.14"], ["127.0.0.1"])
    with pytest.raises(EgressFailed):
        ask("https://rebinding.example/")
    assert connected == ["93.184.215.14"]


def test_one_address_of_the_inside_refuses_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    connected = resolving(monkeypatch, ["93.184.215.14", "169.254.169.254"])
    with pytest.raises(EgressRefused, match=r"169\.254\.169\.254"):
        ask("https://mixed.example/")
    assert connected == []


def test_plain_http_needs_the_operators_word(monkeypatch: pytest.MonkeyPatch) -> None:
    connected = resolving(monkeypatch, ["93.184.215.14"])
    with pytest.raises(EgressRefused, match="https"):
        ask("http://plain.example/")
    with pytest.raises(EgressFailed):
        ask("http://plain.example/", allow="plain.example")
    assert connected == ["93.184.215.14"]


@pytest.mark.parametrize("allow", ["10.0.0.0/8", "hooks.corp.example", "x.example, HOOKS.corp.example."])
def test_the_operator_allows_receivers_in_the_house(monkeypatch: pytest.MonkeyPatch, allow: str) -> None:
    connected = resolving(monkeypatch, ["10.0.0.7"])
    with pytest.raises(EgressFailed):
        ask("https://hooks.corp.example/", allow=allow)
    assert connected == ["10.0.0.7"]


@pytest.mark.parametrize(
    "url", ["https://2130706433/", "https://0x7f000001/", "https://0177.0.0.1/", "https://127.1/"]
)
def test_other_spellings_of_loopback_are_loopback(url: str) -> None:
    try:
        socket.getaddrinfo(url.split("/")[2], 443)
    except OSError:
        pytest.skip("this machine's resolver does not know the spelling")
    with pytest.raises(EgressRefused):
        ask(url)


def test_an_allowance_that_is_none_is_named() -> None:
    with pytest.raises(MisconfiguredError, match="LILY_TARGETS_ALLOW"):
        AllowList("10.0.0.1/8")
