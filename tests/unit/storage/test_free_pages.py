"""Free pages of an LMDB file become holes, and nothing else does: not what a reader may still see either. Mapped pages
leave the process's memory, and are read again."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import lmdb
import pytest

from storage.space.free_pages import FreePages
from storage.space.mapped_pages import MappedPages

KEYS = [b"%03d" % number for number in range(150)]
TENS = 1, 300, 7_000, 40_000
"""Sizes of values, in ten bytes."""


def contents(txn: lmdb.Transaction[bytes]) -> dict[bytes, bytes]:
    return dict(txn.cursor())


@pytest.mark.parametrize("seed", range(3))
def test_what_is_free_takes_no_room_and_what_is_not_stays(tmp_path: Path, seed: int) -> None:
    walk(tmp_path, seed)


def walk(directory: Path, seed: int) -> None:
    choose, written = random.Random(seed), dict[bytes, bytes]()
    with lmdb.Environment(str(directory / "store"), map_size=1 << 40, sync=False) as environment:
        pages = FreePages(directory / "store", environment)
        for number in range(150):
            reader, seen = environment.begin(), dict(written)
            for _ in range(choose.randrange(1, 4)):
                with environment.begin(write=True) as txn:
                    for key in choose.sample(KEYS, 4):
                        written[key] = choose.randbytes(10) * choose.choice(TENS)
                        txn.put(key, written[key])
                    for key in choose.sample(sorted(written), len(written) // choose.choice((3, 30))):
                        txn.delete(key)
                        del written[key]
            while pages.give_back():
                pass
            assert contents(reader) == seen
            reader.abort()
            if number % 10 == 0:
                with environment.begin() as txn:
                    assert contents(txn) == written
        for key in (b"last", b"but one"):
            with environment.begin(write=True) as txn:
                txn.put(key, b"")
        while pages.give_back():
            pass
        assert pages.allocated_bytes < sum(map(len, written.values())) * 1.5 + (1 << 20)
        pages.close()


# Pages in memory

MEBIBYTE = 1 << 20
VALUE = bytes(range(256)) * 4096


def values(environment: lmdb.Environment) -> list[bytes]:
    """Return every value, read from the mapping."""
    with environment.begin() as txn:
        return [value for _, value in txn.cursor()]


def mapped_bytes() -> int:
    """Return the resident bytes of mapped files; those of temporary files in memory count as shared memory."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return sum(int(lines[kind].split()[0]) * 1024 for kind in ("RssFile", "RssShmem"))


@pytest.mark.linux_only("MADV_DONTNEED is Linux's")
def test_pages_that_were_read_leave_memory_and_come_back(tmp_path: Path) -> None:
    with closing(lmdb.Environment(str(tmp_path), map_size=256 * MEBIBYTE)) as environment:
        with environment.begin(write=True) as txn:
            for number in range(32):
                txn.put(bytes([number]), VALUE)
        pages = MappedPages(tmp_path / "data.mdb")
        assert values(environment) == [VALUE] * 32
        read = mapped_bytes()
        pages.give_back()
        assert mapped_bytes() < read - 24 * MEBIBYTE
        assert values(environment) == [VALUE] * 32


def test_a_file_that_is_not_mapped_has_no_pages(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").touch()
    MappedPages(tmp_path / "data.mdb").give_back()
    MappedPages(tmp_path / "missing").give_back()
