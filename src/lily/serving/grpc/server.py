"""The gRPC listener of a gateway process: services, health and reflection on a port of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from lily.domain.errors import MisconfiguredError
from lily.settings import GatewaySettings

_GRACE_SECONDS = 2.0
_MAX_MESSAGE_BYTES = 16 * 1024 * 1024
#: Several workers share the port, as they share the one of REST.
_OPTIONS = [("grpc.so_reuseport", 1), ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES)]


@dataclass(frozen=True)
class GrpcServer:
    """Serves nothing when the settings name no port."""

    settings: GatewaySettings
    services: dict[str, grpc.GenericRpcHandler]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        if not self.settings.grpc_port:
            yield
            return
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers(tuple(self.services.values()))
        names = (*self.services, health.SERVICE_NAME, reflection.SERVICE_NAME)
        await _add_health(server, names)
        reflection.enable_server_reflection(names, server)
        self._listen(server)
        await server.start()
        try:
            yield
        finally:
            await server.stop(_GRACE_SECONDS)

    def _listen(self, server: grpc.aio.Server) -> None:
        address = f"{self.settings.host}:{self.settings.grpc_port}"
        credentials = _credentials(self.settings)
        try:
            if credentials is None:
                server.add_insecure_port(address)
            else:
                server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise MisconfiguredError(
                f"cannot listen on {address} for gRPC: {error}; set LILY_GATEWAY_GRPC_PORT to a free port"
            ) from None


async def _add_health(server: grpc.aio.Server, names: Sequence[str]) -> None:
    servicer: Any = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    for name in ("", *names):
        await servicer.set(name, health_pb2.HealthCheckResponse.SERVING)


def _credentials(settings: GatewaySettings) -> grpc.ServerCredentials | None:
    """The certificate of the gateway's other listener, and its demand for one of the caller."""
    if not settings.tls_certificate:
        return None
    pair = (Path(settings.tls_key).read_bytes(), Path(settings.tls_certificate).read_bytes())
    ca = Path(settings.tls_client_ca).read_bytes() if settings.tls_client_ca else None
    return grpc.ssl_server_credentials([pair], ca, require_client_auth=settings.tls_client == "required")
