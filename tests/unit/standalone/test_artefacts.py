"""What is pinned, and what happens to a file that is not the pinned one."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from lily.domain.errors import Unavailable
from lily.standalone import artefacts
from lily.standalone.artefacts import Artefact, ensure, read_lock
from lily.standalone.relock import WANTED

COORDINATE = "org.example:thing:1.0"
CONTENT = b"the real jar"
PINNED = Artefact(COORDINATE, hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JGO_CONFIG_FILE", str(tmp_path / "none.conf"))
    monkeypatch.setattr(artefacts, "read_lock", lambda: {"things": [PINNED]})
    monkeypatch.setattr(artefacts, "PATIENCE", ())


def publish(maven_repository: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Put the artefact where Maven keeps what it has downloaded."""
    folder = maven_repository / "org/example/thing/1.0"
    folder.mkdir(parents=True)
    (folder / "thing-1.0.jar").write_bytes(content)
    monkeypatch.setenv("M2_REPO", str(maven_repository))


def test_the_lock_pins_everything_that_is_wanted() -> None:
    locked = {group: [a.coordinate for a in pinned] for group, pinned in read_lock().items()}
    assert locked == WANTED


def test_an_artefact_is_fetched_once_and_then_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tmp_path / "m2", monkeypatch, CONTENT)
    [first] = ensure("things")
    assert first.read_bytes() == CONTENT
    (tmp_path / "m2/org/example/thing/1.0/thing-1.0.jar").unlink()
    assert ensure("things") == [first]


def test_a_file_with_another_checksum_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tmp_path / "m2", monkeypatch, b"something else")
    with pytest.raises(Unavailable, match="checksum"):
        ensure("things")
    assert not PINNED.path.exists()


def test_an_unknown_group_is_named_with_the_known_ones() -> None:
    with pytest.raises(Unavailable, match="'nothing'; known: things"):
        ensure("nothing")
