"""The gateway process: REST on uvicorn, and gRPC, in and out."""

from __future__ import annotations

import os
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from lily.access.origins import read_networks
from lily.apps.gateway_parts import GatewayParts
from lily.apps.listeners import http_options
from lily.apps.processes import collect_seldom, parser_of, run_process
from lily.ingest.rest.bodies import body_schemas
from lily.repositories.keyrings import open_keyring
from lily.serving.rest.app import AppParts, Surroundings, create_app
from lily.serving.rest.browsers import read_origins
from lily.settings import Settings, load_settings
from lily.telemetry import configure_logging, configure_tracing

COMPONENT = "gateway"
DATA_DIR_VARIABLE = "LILY_DATA_DIR"


def build_app(settings: Settings) -> FastAPI:
    """The gateway's application, wired to the parts the settings name."""
    parts = GatewayParts(settings)
    proxies = read_networks(settings.audit.proxies, "LILY_AUDIT_PROXIES")
    network = Surroundings(proxies, read_origins(settings.gateway.cors_origins), settings.auth.public_url)
    return create_app(
        AppParts(
            authenticator=parts.identity.authenticator,
            cookies=parts.identity.cookies,
            access=parts.access.point,
            trail=parts.trail,
            surroundings=network,
            tenants=parts.routes,
            routers=parts.routers(),
            body_schemas=body_schemas(),
            running=parts.running,
        )
    )


def worker_app() -> FastAPI:
    """Called by uvicorn, once in every process that serves."""
    settings = load_settings(Path(os.environ[DATA_DIR_VARIABLE]))
    configure_logging(COMPONENT, settings.telemetry.log_level)
    configure_tracing(COMPONENT, settings.telemetry.otlp_endpoint, settings.telemetry.trace_ratio)
    app = build_app(settings)
    collect_seldom()
    return app


def main() -> None:
    options = parser_of(COMPONENT, __doc__).parse_args()
    os.environ[DATA_DIR_VARIABLE] = str(options.data_dir.absolute())
    run_process(COMPONENT, options.data_dir, serve)


def serve(settings: Settings) -> None:
    """Serve until a signal asks to stop; every worker builds its own application."""
    open_keyring(settings.secrets)  # a start without the key of secrets fails here, not at the first secret
    uvicorn.run("lily.apps.gateway:worker_app", factory=True, **http_options(settings.gateway))


if __name__ == "__main__":
    main()
