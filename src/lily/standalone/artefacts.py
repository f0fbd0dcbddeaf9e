"""The Java artefacts that Lily runs: pinned and checksummed in `artefacts.lock`, fetched once into the cache.

A file is moved to its place only after its checksum was verified, so what is there is right and a start
costs one look per file. Where repositories are is jgo's own configuration (`~/.config/jgo.conf`).
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lily.domain.errors import Unavailable
from lily.standalone.cache import cache_dir
from lily.standalone.progress import Progress

LOCK_FILE = Path(__file__).with_name("artefacts.lock")

#: Seconds between attempts. Mirrors that limit their rate want patience; jgo itself waits up to three times
#: for as long as the mirror asks before one attempt fails.
PATIENCE = (2.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True)
class Artefact:
    """One pinned file: `group:artifact:version`, its checksum and its size."""

    coordinate: str
    sha256: str
    size: int

    @property
    def path(self) -> Path:
        """Where the file is in the cache once it is there."""
        group, artifact, version = self.coordinate.split(":")
        return cache_dir("artefacts") / group / f"{artifact}-{version}.jar"


def ensure(group: str) -> list[Path]:
    """The group's files, in the order of the lock; missing ones are downloaded and verified first."""
    artefacts = read_lock().get(group)
    if not artefacts:
        raise Unavailable(
            f"there is no artefact group {group!r}; known: {', '.join(read_lock())}", group=group
        )
    missing = [artefact for artefact in artefacts if not artefact.path.exists()]
    if missing:
        _fetch_all(group, missing)
    return [artefact.path for artefact in artefacts]


def read_lock(lock_file: Path = LOCK_FILE) -> dict[str, list[Artefact]]:
    """The lock as group → artefacts."""
    groups: dict[str, list[Artefact]] = {}
    for group, coordinate, sha256, size in _lock_lines(lock_file):
        groups.setdefault(group, []).append(Artefact(coordinate, sha256, int(size)))
    return groups


def _lock_lines(lock_file: Path) -> Iterator[list[str]]:
    for line in lock_file.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            yield line.split()


def _fetch_all(group: str, missing: Sequence[Artefact]) -> None:
    with Progress(f"Downloading {group}", len(missing), sum(a.size for a in missing)) as progress:
        for artefact in missing:
            _fetch_patiently(artefact, progress)
            progress.finish_one()


def _fetch_patiently(artefact: Artefact, progress: Progress) -> None:
    for pause in PATIENCE:
        try:
            return _fetch(artefact, progress)
        except (OSError, RuntimeError):  # jgo reports "rate limited" and "not found" alike
            progress.waiting(f"{artefact.coordinate} did not come; next attempt in {pause:.0f} s")
            time.sleep(pause)
    try:
        return _fetch(artefact, progress)
    except (OSError, RuntimeError) as error:
        raise Unavailable(
            f"cannot download {artefact.coordinate} ({type(error).__name__}). Check the network, set your "
            f"company's mirror in the [repositories] section of ~/.config/jgo.conf, or put the file at "
            f"{artefact.path}; then run the command again.",
            coordinate=artefact.coordinate,
        ) from error


def _fetch(artefact: Artefact, progress: Progress) -> None:
    artefact.path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir("artefacts")) as scratch:
        found = download(artefact.coordinate, Path(scratch), progress)
        verify(found, artefact)
        fresh = Path(scratch) / "verified.jar"
        shutil.copyfile(found, fresh)
        fresh.replace(artefact.path)


def verify(file: Path, artefact: Artefact) -> None:
    """Refuse a file that is not byte for byte the pinned one."""
    actual = sha256_of(file)
    if actual != artefact.sha256:
        raise Unavailable(
            f"{artefact.coordinate} has checksum {actual}, expected {artefact.sha256}: the mirror or the "
            f"file {file} is damaged or was tampered with; nothing was installed.",
            coordinate=artefact.coordinate,
        )


def sha256_of(file: Path) -> str:
    """The file's SHA-256 in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def download(coordinate: str, scratch: Path, progress: Progress) -> Path:
    """Find the jar in the machine's Maven repository, else fetch it into `scratch`."""
    from jgo.config import GlobalSettings  # slow to import and needed once in a machine's life
    from jgo.constants import default_maven_repo
    from jgo.maven import MavenContext, PythonResolver

    context = MavenContext(
        resolver=PythonResolver(progress_callback=progress.file),
        repo_cache=scratch,
        local_repos=[default_maven_repo()],
        remote_repos=GlobalSettings.load().repositories or None,
        timeout=60,
    )
    group, artifact, version = coordinate.split(":")
    path: Path = context.project(group, artifact).at_version(version).artifact().resolve()
    return path
