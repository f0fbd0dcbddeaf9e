"""Whose address the audit remembers."""

from __future__ import annotations

import pytest

from lily.access.origins import client_address, read_networks
from lily.domain.errors import MisconfiguredError

PROXIES = read_networks("10.0.0.0/8, ::1/128", "LILY_AUDIT_PROXIES")


def test_a_forwarded_address_is_believed_from_a_known_proxy_only() -> None:
    assert client_address("10.1.1.1", "192.0.2.7", PROXIES) == "192.0.2.7"
    assert client_address("203.0.113.5", "192.0.2.7", PROXIES) == "203.0.113.5"
    assert client_address("10.1.1.1", "192.0.2.7", ()) == "10.1.1.1"


def test_what_the_caller_wrote_before_the_proxy_is_not_believed() -> None:
    assert client_address("10.1.1.1", "1.1.1.1, 192.0.2.7, 10.2.2.2", PROXIES) == "192.0.2.7"


@pytest.mark.parametrize("nonsense", ["unknown", "", ",", "<script>", "192.0.2.7:80, x"])
def test_nonsense_leaves_the_proxys_own_address(nonsense: str) -> None:
    assert client_address("10.1.1.1", nonsense, PROXIES) == "10.1.1.1"


def test_an_ipv4_address_in_ipv6_clothes_is_the_same_address() -> None:
    assert client_address("::ffff:10.1.1.1", "[2001:db8::1]", PROXIES) == "2001:db8::1"


def test_a_list_of_proxies_that_is_none_names_the_variable() -> None:
    with pytest.raises(MisconfiguredError, match="LILY_AUDIT_PROXIES"):
        read_networks("10.0.0.1/8", "LILY_AUDIT_PROXIES")
