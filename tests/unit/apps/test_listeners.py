"""A listener that is half set up does not start, and says which variable is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.certificates import Authority
from lily.apps.listeners import tls_options
from lily.domain.errors import MisconfiguredError
from lily.settings import GatewaySettings


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


def test_without_a_certificate_there_is_no_tls() -> None:
    assert tls_options(GatewaySettings()) == {}


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
