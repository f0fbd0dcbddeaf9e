"""A listener that is half set up does not start, and says which variable is missing."""

from __future__ import annotations

import pickle
import ssl
from pathlib import Path
from typing import Literal

import pytest

from kit.certificates import Authority
from lily.apps.listeners import http_options, tls_options
from lily.domain.errors import MisconfiguredError
from lily.settings import GatewaySettings


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


def test_without_a_certificate_there_is_no_tls() -> None:
    assert tls_options(GatewaySettings()) == {}


@pytest.mark.parametrize(
    ("asked", "verified"),
    [("none", ssl.CERT_NONE), ("optional", ssl.CERT_OPTIONAL), ("required", ssl.CERT_REQUIRED)],
)
def test_tls_is_1_2_or_later_and_asks_for_certificates_as_it_is_told_in_every_worker(
    authority: Authority, asked: Literal["none", "optional", "required"], verified: ssl.VerifyMode
) -> None:
    server = authority.sign("server")
    gateway = GatewaySettings(
        tls_certificate=server.certificate,
        tls_key=server.key,
        tls_client=asked,
        tls_client_ca="" if asked == "none" else authority.file,
    )
    options = pickle.loads(pickle.dumps(http_options(gateway)))  # as a worker gets them
    context = options["ssl_context_factory"](None, None)
    assert (context.minimum_version, context.verify_mode) == (ssl.TLSVersion.TLSv1_2, verified)


def test_headers_of_proxies_are_left_to_lily() -> None:
    assert http_options(GatewaySettings())["proxy_headers"] is False


def test_half_a_setting_is_refused(authority: Authority) -> None:
    server = authority.sign("server")
    for said in (
        {"tls_certificate": server.certificate},
        {"tls_key": server.key},
        {"tls_client": "required"},
        {"tls_client_ca": authority.file},
        {"tls_client": "required", "tls_client_ca": authority.file},
        {"tls_certificate": server.certificate, "tls_key": server.key, "tls_client": "required"},
        {"tls_certificate": server.certificate, "tls_key": server.key, "tls_client_ca": authority.file},
    ):
        with pytest.raises(MisconfiguredError, match="LILY_GATEWAY_TLS"):
            tls_options(GatewaySettings(**said))  # type: ignore[arg-type]


def test_files_that_are_no_certificate_and_key_are_refused(authority: Authority, tmp_path: Path) -> None:
    one, other = authority.sign("one"), authority.sign("other")
    with pytest.raises(MisconfiguredError, match="LILY_GATEWAY_TLS_CERTIFICATE"):
        tls_options(GatewaySettings(tls_certificate=one.certificate, tls_key=other.key))
    with pytest.raises(MisconfiguredError, match="LILY_GATEWAY_TLS_CERTIFICATE"):
        tls_options(GatewaySettings(tls_certificate=str(tmp_path / "nothing"), tls_key=one.key))
    with pytest.raises(MisconfiguredError, match="LILY_GATEWAY_TLS_CLIENT_CA"):
        tls_options(
            GatewaySettings(
                tls_certificate=one.certificate, tls_key=one.key, tls_client="optional", tls_client_ca=one.key
            )
        )
