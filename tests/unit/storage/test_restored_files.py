"""A restore's exchange of files, cut short at each step and gone on with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from storage import restored_files
from storage.restored_files import PREPARING, exchange, finish, is_unfinished

NAMES = ("definitions", "log", "messages")
OLD = {"definitions": "old", "log": "old"}
NEW = {"definitions": "new", "messages/data": "new"}


def write(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def contents(directory: Path) -> dict[str, str]:
    return {str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()}


def expect_exchanged(directory: Path) -> None:
    assert not is_unfinished(directory)
    (kept,) = directory.glob("replaced-*")
    assert contents(kept) == OLD
    shutil.rmtree(kept)
    assert contents(directory) == {**NEW, "somebody else's": "stays"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write(tmp_path, {**OLD, "somebody else's": "stays"})
    write(tmp_path / PREPARING, NEW)
    return tmp_path


def test_old_files_are_kept_and_others_stay(directory: Path) -> None:
    kept = exchange(directory, NAMES)
    assert kept is not None
    expect_exchanged(directory)


def test_nothing_is_begun_before_all_is_prepared(directory: Path) -> None:
    finish(directory, NAMES)
    assert contents(directory) == {
        **OLD,
        "somebody else's": "stays",
        **{f"{PREPARING}/{name}": text for name, text in NEW.items()},
    }


@pytest.mark.parametrize("moved", range(3), ids=["nothing", "one old file", "all old files"])
def test_it_goes_on_with_what_was_there(directory: Path, moved: int) -> None:
    (directory / PREPARING).rename(prepared := directory / restored_files._PREPARED)
    if moved:
        (prepared / restored_files._OLD).mkdir()
    for name in list(OLD)[:moved]:
        (directory / name).rename(prepared / restored_files._OLD / name)
    finish(directory, NAMES)
    expect_exchanged(directory)


@pytest.mark.parametrize("moved", range(3), ids=["nothing", "one new file", "all new files"])
def test_it_goes_on_with_what_is_new(directory: Path, moved: int) -> None:
    (directory / PREPARING).rename(moving_in := directory / restored_files._MOVING_IN)
    (moving_in / restored_files._OLD).mkdir()
    for name in OLD:
        (directory / name).rename(moving_in / restored_files._OLD / name)
    for name in ("definitions", "messages")[:moved]:
        (moving_in / name).rename(directory / name)
    finish(directory, NAMES)
    expect_exchanged(directory)


def test_it_goes_on_when_the_old_files_are_kept_already(directory: Path) -> None:
    (directory / PREPARING).rename(moving_in := directory / restored_files._MOVING_IN)
    (kept := directory / "replaced-20260101T000000").mkdir()
    for name in OLD:
        (directory / name).rename(kept / name)
    for name in ("definitions", "messages"):
        (moving_in / name).rename(directory / name)
    finish(directory, NAMES)
    expect_exchanged(directory)
