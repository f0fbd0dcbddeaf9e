"""A checkpoint that does not continue where the database stands is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lily.domain.errors import MisconfiguredError
from lily.pipeline.checkpoints import check_checkpoint
from lily.repositories.postgres.applier import Position

OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1}\n{"events":{"0":5}}'
COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'


def checkpoint(folder: Path, offsets: dict[int, str], commits: dict[int, str] | None = None) -> Path:
    for name, files in (("offsets", offsets), ("commits", commits or {})):
        (folder / name).mkdir()
        for batch, text in files.items():
            (folder / name / str(batch)).write_text(text)
    return folder


def position(batch_id: int) -> Position:
    return Position(batch_id, {"0": 5})


def test_a_first_start_is_fine(tmp_path: Path) -> None:
    check_checkpoint(tmp_path / "none", "assets", None)
    check_checkpoint(checkpoint(tmp_path, {}), "assets", None)


@pytest.mark.parametrize("applied", [None, 8, 9], ids=str)
def test_a_checkpoint_at_or_ahead_of_the_database_continues(tmp_path: Path, applied: int | None) -> None:
    place = checkpoint(tmp_path, {8: OFFSETS, 9: OFFSETS}, {8: COMMIT})
    check_checkpoint(place, "assets", None if applied is None else position(applied))


def test_a_lost_checkpoint_is_refused_and_the_message_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MisconfiguredError, match=r"assets is lost.*batch 3.*lily replay"):
        check_checkpoint(tmp_path / "none", "assets", position(3))


def test_a_checkpoint_without_offsets_is_lost(tmp_path: Path) -> None:
    with pytest.raises(MisconfiguredError, match="is lost"):
        check_checkpoint(checkpoint(tmp_path, {}, {2: COMMIT}), "assets", position(3))


def test_a_checkpoint_older_than_the_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MisconfiguredError, match=r"older than the database.*batch 2.*batch 3.*lily replay"):
        check_checkpoint(checkpoint(tmp_path, {2: OFFSETS}), "assets", position(3))


def test_batches_are_compared_as_numbers(tmp_path: Path) -> None:
    check_checkpoint(checkpoint(tmp_path, {9: OFFSETS, 10: OFFSETS}), "assets", position(10))


@pytest.mark.parametrize("text", ["", "v1", OFFSETS[:-4], "v1\n", "\0" * 40, OFFSETS[3:]], ids=repr)
def test_a_torn_offsets_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(MisconfiguredError, match=r"assets is damaged.*offsets/4.*lily replay"):
        check_checkpoint(checkpoint(tmp_path, {3: OFFSETS, 4: text}), "assets", position(3))


def test_a_torn_commit_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MisconfiguredError, match=r"assets is damaged.*commits/3"):
        check_checkpoint(checkpoint(tmp_path, {3: OFFSETS}, {3: COMMIT[:-5]}), "assets", position(3))


def test_files_that_are_no_batches_do_not_count(tmp_path: Path) -> None:
    place = checkpoint(tmp_path, {3: OFFSETS})
    (place / "offsets" / ".4.crc").write_text("torn")
    (place / "offsets" / ".5.tmp").write_text("torn")
    check_checkpoint(place, "assets", position(3))
