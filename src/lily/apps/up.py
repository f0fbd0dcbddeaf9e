"""The supervisor process: everything an installation needs, started in order and kept alive."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from lily.domain.errors import LilyError, MisconfiguredError, Unavailable
from lily.settings import DISPATCHER_MARKER, SCRAPER_MARKER, STANDBY_MARKER, load_settings
from lily.standalone.environment import GATEWAY_PORT, configure, is_external
from lily.standalone.installations import Installation
from lily.standalone.logfiles import tail
from lily.standalone.parts import Part
from lily.standalone.ports import LOOPBACK, is_free
from lily.standalone.services import service_parts
from lily.standalone.states import end_leftovers, sole_supervisor
from lily.standalone.supervision import Stopped, Supervisor

#: Whoever waited for the start asks first; another Spark that starts at that moment would take the processor.
_CALM_SECONDS = 15.0
#: Loopback is never behind a proxy, whatever the environment says.
_CERTIFICATE, _KEY = "LILY_GATEWAY_TLS_CERTIFICATE", "LILY_GATEWAY_TLS_KEY"


def supervise(installation: Installation, port: int, when_healthy: Callable[[], None]) -> None:
    """Run the installation until a signal asks to stop; `when_healthy` is called once."""
    installation.create()
    with sole_supervisor(installation):
        end_leftovers(installation)
        refuse_busy(port)
        environment = configure(installation, port)
        supervisor = Supervisor(installation, _announce, port)
        supervisor.enter("starting")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: supervisor.stop_requested.set())
        try:
            migrated = installation.run / "migrated"
            migrated.unlink(missing_ok=True)
            services = service_parts(installation, environment)
            streams, gateway = _lily_parts(installation, port, migrated)
            supervisor.add([*services, streams])  # Spark takes longest to start, and needs no tables for that
            supervisor.await_ready(services)
            _migrate(installation)
            migrated.touch()
            supervisor.add([gateway])
            supervisor.await_ready([streams, gateway])
            when_healthy()
            supervisor.add(_beside(installation, gateway))
            supervisor.run(_CALM_SECONDS)
            if load_settings(installation.data_dir).spark.standby and not supervisor.stop_requested.is_set():
                supervisor.add([_standby(installation, streams)])
            supervisor.run()
        except Stopped:
            pass
        except LilyError as error:
            supervisor.enter("failed", error.message)
            raise
        finally:
            _stop(supervisor)


def _announce(part: str, event: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')}  {part:<9} {event}\n")  # in one piece, whichever thread


def refuse_busy(port: int) -> None:
    """Fail before anything starts when somebody else has the public port."""
    if not is_free(port):
        raise MisconfiguredError(
            f"port {port} is in use by another program; stop it, or choose another one with --port", port=port
        )


def own_url(port: int) -> str:
    """Where this installation answers on this machine."""
    return f"{'https' if os.environ.get(_CERTIFICATE) else 'http'}://{LOOPBACK}:{port}"


def gateway_opener() -> urllib.request.OpenerDirector:
    """Asks the gateway itself, through no proxy.

    Its own certificate is the one that is trusted, under any name; it is also shown, in case callers must.
    """
    direct = urllib.request.ProxyHandler({})
    certificate = os.environ.get(_CERTIFICATE)
    if not certificate:
        return urllib.request.build_opener(direct)
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_cert_chain(certificate, os.environ.get(_KEY))
    return urllib.request.build_opener(direct, urllib.request.HTTPSHandler(context=context))


def health(port: int) -> dict[str, Any] | None:
    """What the gateway says about every component, or nothing when it does not answer."""
    url = f"{own_url(port)}/lily/v1/system/health"
    try:
        with gateway_opener().open(url, timeout=3) as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:
        return _body_of(error)
    except (OSError, ValueError):
        return None


def _body_of(error: urllib.error.HTTPError) -> dict[str, Any]:
    try:
        return dict(json.load(error))
    except ValueError:
        return {"status": "unhealthy"}


def _stop(supervisor: Supervisor) -> None:
    failed = supervisor.phase == "failed"
    if not failed:
        supervisor.enter("stopping")
    supervisor.stop()
    if not failed:
        supervisor.enter("stopped")


def _migrate(installation: Installation) -> None:
    """Tables and topics, made by a process of its own: its memory is not the supervisor's to keep."""
    log = installation.log("migrate")
    with log.open("ab") as stream:
        command = _module("migrate", installation)
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
        )
    if done.returncode != 0:
        raise Unavailable(f"the migration failed; the end of {log}:\n{tail(log)}", component="migrate")


def _standby(installation: Installation, streams: Part) -> Part:
    """A second streams process, warm, for the moment in which the first dies."""
    marker = installation.run / STANDBY_MARKER
    return replace(
        streams,
        name="standby",
        prepare=lambda: marker.unlink(missing_ok=True),
        ready=marker.exists,
        stands_by_for=streams.name,
    )


def _beside(installation: Installation, gateway: Part) -> list[Part]:
    """The processes that start when all else serves, so that they do not delay it."""
    return [
        _marked("dispatcher", DISPATCHER_MARKER, installation, gateway),
        _marked("scraper", SCRAPER_MARKER, installation, gateway),
    ]


def _marked(name: str, file: str, installation: Installation, gateway: Part) -> Part:
    """A process that makes a file when it has begun."""
    marker = installation.run / file
    return Part(
        name=name,
        command=_module(name, installation),
        prepare=lambda: marker.unlink(missing_ok=True),
        ready=marker.exists,
        environment=gateway.environment,
    )


def _lily_parts(installation: Installation, port: int, migrated: Path) -> tuple[Part, Part]:
    # Both processes write their metrics here, so that the gateway's /metrics tells of both.
    environment = {
        GATEWAY_PORT: str(port),
        "PROMETHEUS_MULTIPROC_DIR": os.fspath(_fresh(installation.metrics)),
    }
    spark = {} if is_external("LILY_SPARK_MASTER") else {"SPARK_LOCAL_IP": LOOPBACK}
    warmth = _Warmth(port)
    streams = Part(
        name="streams",
        command=[*_module("streams", installation), "--after", os.fspath(migrated)],
        prepare=warmth.forget,
        ready=warmth.is_felt,
        stop_seconds=20,
        environment={**environment, **spark},
    )
    gateway = Part(
        name="gateway",
        command=_module("gateway", installation),
        ready=lambda: health(port) is not None,
        stop_seconds=20,
        environment=environment,
    )
    return streams, gateway


def _fresh(folder: Path) -> Path:
    """An empty folder: the metrics of processes that are gone would be counted again."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


#: A health report may be this old, and the heartbeat in it that much older.
_REPORT_SECONDS = 2.0


class _Warmth:
    """Whether the pipeline is warm, by its own word: the heartbeat of an earlier life does not count."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._started_at = time.monotonic()

    def forget(self) -> None:
        self._started_at = time.monotonic()

    def is_felt(self) -> bool:
        report = health(self._port) or {}
        streams = report.get("components", {}).get("streams", {})
        age = streams.get("heartbeat_age_seconds", 0.0)
        alive = time.monotonic() - self._started_at
        return bool(streams.get("status") == "healthy" and age + _REPORT_SECONDS < alive)


def _module(app: str, installation: Installation) -> list[str]:
    return [sys.executable, "-m", f"lily.apps.{app}", "--data-dir", os.fspath(installation.data_dir)]


def main() -> None:
    """Run the supervisor of an installation in the background, for `lily up --detach`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    try:
        supervise(Installation.at(arguments.data_dir), arguments.port, lambda: None)
    except LilyError as error:
        sys.exit(f"error: {error.message}")


if __name__ == "__main__":
    main()
