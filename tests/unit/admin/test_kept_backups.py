"""`leveret backup --keep`: the backups that are deleted, and all that is not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio

from broker.server.offline.kept_backups import keep_newest, name_at
from broker.server.recovery import Stores, open_stores
from broker.server.store_copies import NEW, StoreCopies, alone
from storage.storage_errors import StoreError


@contextmanager
def opened(directory: Path) -> Iterator[Stores]:
    stores = open_stores(directory)
    try:
        yield stores
    finally:
        stores.definitions.close()
        stores.messages.close()
        os.close(stores.lock)


def name(day: int) -> str:
    return name_at(datetime(2026, 1, day, 3, 15, tzinfo=UTC))


def back_up(stores: Stores, backup: Path) -> Path:
    trio.run(StoreCopies(stores, lambda _: None).make, backup)
    return backup


def broker(directory: Path, place: Path, *days: int) -> Path:
    """Make a broker's data directory, and backups of it; the last of them."""
    directory.mkdir()
    with opened(directory) as stores:
        return [back_up(stores, place / name(day)) for day in days][-1]


def left(place: Path) -> set[str]:
    return {path.name for path in place.iterdir() if not path.name.endswith(".lock")}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The directory of backups."""
    return tmp_path / "backups"


def test_the_newest_are_kept_and_nothing_but_backups_of_this_broker_is_deleted(tmp_path: Path, place: Path) -> None:
    newest = broker(tmp_path / "data", place, *range(1, 10))
    broker(tmp_path / "another", place, 11, 12)
    with opened(place / name(1)):
        pass  # a data directory from now on
    (place / name(2) / "notes.txt").touch()
    (place / name(13)).mkdir()
    (place / name(14)).touch()
    (place / name(15)).symlink_to(place / name(3))
    (place / name(4)).rename(place / "before-the-move")
    before = left(place)
    with alone(place / "x"):
        assert [path.name for path in keep_newest(newest, 3)] == [name(6), name(5), name(3)]
    assert before - left(place) == {name(6), name(5), name(3)}
    assert keep_newest(newest, 3) == []
    assert [path.name for path in keep_newest(place / name(12), 1)] == [name(11)]


def test_a_new_backup_that_is_damaged_costs_no_other_one(tmp_path: Path, place: Path) -> None:
    newest = broker(tmp_path / "data", place, 1, 2, 3)
    with (newest / "definitions.sqlite").open("r+b") as file:
        file.seek(-4096, os.SEEK_END)
        file.write(b"\xff" * 4096)
    with pytest.raises(StoreError, match="no other backup was deleted"):
        keep_newest(newest, 1)
    assert left(place) == {name(1), name(2), name(3)}


def test_rests_are_removed_and_a_backup_that_is_being_written_is_not(tmp_path: Path, place: Path) -> None:
    newest = broker(tmp_path / "data", place, 1, 2, 3)
    for rest in (name(4) + NEW, name(5) + NEW, name(6) + ".deleted", "mine" + NEW):
        shutil.copytree(newest, place / rest)
    with alone(place / (name(5) + NEW)):
        assert keep_newest(newest, 3) == []
    assert left(place) == {name(1), name(2), name(3), name(5) + NEW, "mine" + NEW}
