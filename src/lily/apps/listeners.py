"""How HTTP is served, from the settings; a half-set or unreadable certificate stops the start."""

from __future__ import annotations

import ssl
from functools import partial
from typing import Any

from lily.apps.bounds import BoundedHttp, BoundedWebSocket
from lily.domain.errors import MisconfiguredError
from lily.settings import GatewaySettings

#: Longer than most clients keep an idle connection: a request that is sent just as we close it is lost.
_IDLE_SECONDS = 75
#: Less than the supervisor waits (`Part.stop_seconds`): what the application does last needs the rest.
_STOP_SECONDS = 5
#: Workers that begin at the same time import everything, and answer nothing until they have.
_START_SECONDS = 60
#: In bytes, for anybody; what may be said in how many characters is for each WebSocket to say.
_LONGEST_MESSAGE = 1024 * 1024


def http_options(gateway: GatewaySettings) -> dict[str, Any]:
    """Uvicorn's options; who asks is read from headers of trusted proxies by Lily itself."""
    return {
        "host": gateway.host,
        "port": gateway.port,
        "workers": gateway.workers,
        "loop": "uvloop",
        "http": BoundedHttp,
        "ws": BoundedWebSocket,
        "ws_max_size": _LONGEST_MESSAGE,
        "ws_per_message_deflate": False,
        "proxy_headers": False,
        "server_header": False,
        "access_log": False,
        "log_config": None,
        "log_level": "warning",
        "timeout_keep_alive": _IDLE_SECONDS,
        "timeout_graceful_shutdown": _STOP_SECONDS,
        "timeout_worker_healthcheck": _START_SECONDS,
        **tls_options(gateway),
    }


def tls_options(gateway: GatewaySettings) -> dict[str, Any]:
    """Uvicorn's options about TLS; empty when no certificate is set."""
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
    _context(gateway)  # fails here, where the variable can be named, rather than in a worker
    return {"ssl_context_factory": partial(_context, gateway)}


def _context(gateway: GatewaySettings, *_: object) -> ssl.SSLContext:
    """Uvicorn also gives its configuration, and its own way to make one."""
    certificate, key, ca = gateway.tls_certificate, gateway.tls_key, gateway.tls_client_ca
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise MisconfiguredError(
            f"LILY_GATEWAY_TLS_CERTIFICATE and LILY_GATEWAY_TLS_KEY: {certificate} and {key} are not a "
            f"certificate and its key: {error}"
        ) from None
    try:
        if ca:
            context.load_verify_locations(ca)
            is_required = gateway.tls_client == "required"
            context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    except (OSError, ssl.SSLError) as error:
        raise MisconfiguredError(f"LILY_GATEWAY_TLS_CLIENT_CA: {ca} is no certificate: {error}") from None
    return context
