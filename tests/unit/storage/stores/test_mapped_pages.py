"""Pages of the message store's file that LMDB maps: they leave the process's memory, and are read again."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import lmdb
import pytest

from broker.server.resource_alarms import memory_mapped
from storage.space.mapped_pages import MappedPages

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="MADV_DONTNEED is Linux's")

MEBIBYTE = 1 << 20
VALUE = bytes(range(256)) * 4096


def values(environment: lmdb.Environment) -> list[bytes]:
    """Return every value, read from the mapping."""
    with environment.begin() as txn:
        return [value for _, value in txn.cursor()]


def test_pages_that_were_read_leave_memory_and_come_back(tmp_path: Path) -> None:
    with closing(lmdb.Environment(str(tmp_path), map_size=256 * MEBIBYTE)) as environment:
        with environment.begin(write=True) as txn:
            for number in range(32):
                txn.put(bytes([number]), VALUE)
        pages = MappedPages(tmp_path / "data.mdb")
        assert values(environment) == [VALUE] * 32
        read = memory_mapped()
        pages.give_back()
        assert memory_mapped() < read - 24 * MEBIBYTE
        assert values(environment) == [VALUE] * 32


def test_a_file_that_is_not_mapped_has_no_pages(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").touch()
    MappedPages(tmp_path / "data.mdb").give_back()
    MappedPages(tmp_path / "missing").give_back()
