"""The model of a disk: what may be left of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from leveret.testing.power.disk_record import Event
from leveret.testing.power.disk_states import PAGE, SECTOR, Chance, Content, Disk, File


def test_what_was_synced_is_there_and_the_rest_may_be() -> None:
    file = File()
    file.write((0, b"aaaa"), certain=False)
    file.sync()
    file.write((0, b"bb"), certain=False)
    file.write((2, b"cc"), certain=True)
    file.write((4, None), certain=False)
    assert file.uncertain == 2
    assert bytes(file.after(lambda write: ()).data) == b"aacc"
    assert bytes(file.after(lambda write: (write,)).data) == b"bbcc"


def test_tearing_cuts_at_sectors_only() -> None:
    data = bytes(range(256)) * 8
    whole = File()
    whole.write((100, data), certain=True)
    expected = bytes(whole.certain.data)
    for seed in range(200):
        file = File()
        file.write((0, bytes(4096)), certain=True)
        file.write((100, data), certain=False)
        left = bytes(file.after(Chance("some, torn", random.Random(seed), 1).write).data)
        for at in range(0, len(expected), SECTOR):
            sector = left[at : at + SECTOR]
            assert sector.startswith(expected[at : at + SECTOR]) or not any(sector)


def test_equal_bytes_have_equal_digests() -> None:
    """However they came to be there."""
    choose = random.Random(1)
    for _ in range(100):
        content = Content()
        for _ in range(10):
            at = choose.randrange(8 * PAGE)
            written = bytes([choose.randrange(256)]) * choose.randrange(2 * PAGE)
            content.apply((at, written if choose.random() < 0.8 else None))
        same = Content()
        same.apply((0, bytes(content.data)))
        assert (same.data, same.digest) == (content.data, content.digest)
        same.apply((choose.randrange(len(same.data) + 1), b"\x07" * PAGE))
        assert same.digest != content.digest


@pytest.mark.parametrize("synced", [None, "old", "new"])
def test_what_is_moved_is_in_one_of_two_directories(tmp_path: Path, synced: str | None) -> None:
    """A file is in one of two directories, with its other losses; and in the new one once either of both is synced."""
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "name").touch()
    (tmp_path / "new").mkdir()
    left = set()
    for seed in range(50):
        disk = Disk.found(tmp_path)
        disk.follow(renamed(tmp_path, "old/name", "old/later"))
        disk.follow(renamed(tmp_path, "old/later", "new/name"))
        if synced:
            disk.follow(Event("o", 0, 1, 0, str(tmp_path / synced).encode()))
            disk.follow(Event("f", 0, 1, 0, b""))
        remains = disk.crash(Chance("some", random.Random(seed), disk.uncertain))
        left.add(tuple(sorted(path for path, content in remains.items() if content is not None)))
    assert left == ({("new/name",)} if synced else {("old/name",), ("old/later",), ("new/name",)})


def renamed(root: Path, old: str, new: str) -> Event:
    """A rename, as it is recorded."""
    return Event("n", 0, 0, 0, f"{root / old}\0{root / new}".encode())
