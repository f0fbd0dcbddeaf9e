"""How a listener speaks TLS, from its settings; a half-set or unreadable certificate stops the start."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from granian.constants import SSLProtocols

from lily.domain.errors import MisconfiguredError
from lily.settings import GatewaySettings


def tls_options(gateway: GatewaySettings) -> dict[str, Any]:
    """Granian's options; empty when no certificate is set."""
    certificate, key, ca = gateway.tls_certificate, gateway.tls_key, gateway.tls_client_ca
    if bool(certificate) != bool(key):
        raise MisconfiguredError("set LILY_GATEWAY_TLS_CERTIFICATE and LILY_GATEWAY_TLS_KEY, or neither")
    if (gateway.tls_client == "none") != (not ca) or (ca and not certificate):
        raise MisconfiguredError(
            "client certificates need LILY_GATEWAY_TLS_CERTIFICATE, LILY_GATEWAY_TLS_CLIENT_CA and "
            "LILY_GATEWAY_TLS_CLIENT=optional or required; set all three, or none"
        )
    if not certificate:
        return {}
    _check(certificate, key, ca)
    options: dict[str, Any] = {"ssl_cert": Path(certificate), "ssl_key": Path(key)}
    options["ssl_protocol_min"] = SSLProtocols.tls12
    if ca:
        options |= {"ssl_ca": Path(ca), "ssl_client_verify": gateway.tls_client == "required"}
    return options


def _check(certificate: str, key: str, ca: str) -> None:
    """Fail here, where the variable can be named, rather than in a worker."""
    try:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise MisconfiguredError(
            f"LILY_GATEWAY_TLS_CERTIFICATE and LILY_GATEWAY_TLS_KEY: {certificate} and {key} are not a "
            f"certificate and its key: {error}"
        ) from None
    try:
        if ca:
            context.load_verify_locations(ca)
    except (OSError, ssl.SSLError) as error:
        raise MisconfiguredError(f"LILY_GATEWAY_TLS_CLIENT_CA: {ca} is no certificate: {error}") from None
