"""Free pages of an LMDB file: counting them, and returning their disk space by punching holes into the file.

LMDB never shrinks its file: pages that a transaction frees are listed for later ones, and stay allocated. A store that
was filled once would keep the disk full for good. So free pages become holes in the file: they read as zeros, take no
space, and get it again when LMDB writes to them. Pages behind the last page in use, left by a failed commit, are cut
off.

LMDB does not say which pages are free, so its list is read from the file. It is a B+tree of its own: each key is the
number of a transaction, its value how many pages that one freed, and their numbers. Layout of the file format 1, in the
order of the machine's bytes, all in pages of `psize` bytes:

    page         number 8, unused 2, flags 2, lower 2, upper 2; then the places of its nodes, 2 each, up to `lower`
    node         low 2, high 2, flags 2, size of the key 2; then the key, then the value
                 in a branch low, high and flags are the number of the child; in a leaf low and high are the value's
                 size, and flag 1 says that the value lies on pages of its own: the first one's number is in its place
    pages 0, 1   behind the header of a page: magic 4, format 4, address 8, size of the map 8; the list of free pages
                 and the records, trees of 48 bytes each of which the last 8 are the root; last page 8, transaction 8

The store stays sound by LMDB's own rule for reusing a page: pages that the last commit freed are still the state before
it, so only pages freed by earlier commits may become holes, and none that a reader may see. A later commit may use
them, so the list is read again for each step. Only the thread that commits may call this.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, final

import lmdb

from storage.space.holes import UNSUPPORTED, punch_hole
from storage.storage_errors import StoreCorrupt

MAGIC, FORMAT = 0xBEEFC0DE, 1

_NO_PAGE = (1 << 64) - 1
_PAGE = struct.Struct("=QHHHH")
_PLACE = struct.Struct("=H")
_BRANCH = 1
_NODE = struct.Struct("=HHHH")
_ON_PAGES = 1
_META = struct.Struct("=II16xI36xQ48xQQ")
_NUMBER = struct.Struct("=Q")
_BLOCK_BYTES = 512
"""Unit of `st_blocks`, whatever block size the file system has."""

HOLES_AT_ONCE = 64
"""Holes made in one step; each changes the file system's own map."""


class Root(NamedTuple):
    """The state of a commit: its number, bytes of a page, root of the list of free pages, last page in use."""

    transaction: int
    page_bytes: int
    free_root: int
    last_page: int


@final
class FreePages:
    """The free pages of one open environment, whose file is `data.mdb` in `directory`."""

    def __init__(self, directory: Path, environment: lmdb.Environment) -> None:
        self._environment = environment
        self._path = directory / "data.mdb"
        self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        self._after = -1
        self.supported = punch_hole is not None
        """True while holes can be made. A file system that refuses them shows it at the first one."""

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    @property
    def allocated_bytes(self) -> int:
        """Bytes that the file takes on the disk, without its holes."""
        return os.fstat(self._file).st_blocks * _BLOCK_BYTES

    def cut_back(self) -> None:
        """Cut off what a failed commit wrote behind the last page in use. Raises OSError."""
        cut_back(self._file)

    def give_back(self) -> bool:
        """Turn free pages into at least HOLES_AT_ONCE holes. True while there are more; after False it starts over.

        Raises StoreCorrupt for a list that cannot be true.
        """
        root = read_root(self._file)
        if not self.supported or root is None or root.free_root == _NO_PAGE:
            return False
        made, oldest = 0, min([root.transaction, *_readers(self._environment)])
        for transaction, pages in _records(self._file, root.page_bytes, root.free_root):
            if not self._after < transaction < oldest:
                continue
            # A record is done as a whole: `_after` remembers transactions, not pages of one.
            for first, count in _runs(pages):
                if first <= 1:
                    raise StoreCorrupt(f"{self._path} is damaged: page {first}, which LMDB needs, is listed as free")
                if not self._punch(first * root.page_bytes, count * root.page_bytes):
                    return False
                made += 1
            self._after = transaction
            if made >= HOLES_AT_ONCE:
                return True
        self._after = -1
        return False

    def _punch(self, offset: int, size: int) -> bool:
        """Punch a hole. False if the system refuses."""
        assert punch_hole is not None, "holes are supported"
        try:
            punch_hole(self._file, offset, size)
        except OSError as error:
            if error.errno in UNSUPPORTED:
                self.supported = False
            return False
        return True


def live_bytes(environment: lmdb.Environment) -> int:
    """Bytes of the pages that hold records."""
    stat = environment.stat()
    return stat["psize"] * (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])


def cut_back(file: int) -> None:
    """Cut off an LMDB file behind its last page in use. It must have no writer. Raises OSError."""
    root = read_root(file)
    end = 0 if root is None else (root.last_page + 1) * root.page_bytes
    if 0 < end < os.fstat(file).st_size:
        os.ftruncate(file, end)


def listed_pages(file: int) -> set[int]:
    """Pages of an LMDB file that its last commit lists as free. Raises OSError."""
    root = read_root(file)
    if root is None or root.free_root == _NO_PAGE:
        return set()
    return {page for _, pages in _records(file, root.page_bytes, root.free_root) for page in pages}


def read_root(file: int) -> Root | None:
    """Read the state of the last commit of an LMDB file; None for a file of another format."""
    first = _read_meta(file, 0)
    second = None if first is None else _read_meta(file, first.page_bytes)
    return max(filter(None, (first, second)), default=None)


def _read_meta(file: int, page_at: int) -> Root | None:
    meta = os.pread(file, _META.size, page_at + _PAGE.size)
    if len(meta) < _META.size:
        return None
    magic, version, page_bytes, free_root, last_page, transaction = _META.unpack(meta)
    return Root(transaction, page_bytes, free_root, last_page) if (magic, version) == (MAGIC, FORMAT) else None


def _records(file: int, page_bytes: int, number: int) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield the list of free pages: transactions, ascending, and the pages that each freed, descending."""
    page = os.pread(file, page_bytes, number * page_bytes)
    _, _, flags, lower, _ = _PAGE.unpack_from(page)
    for (place,) in _PLACE.iter_unpack(page[_PAGE.size : lower]):
        low, high, upper, key_size = _NODE.unpack_from(page, place)
        if flags & _BRANCH:  # a branch has no value: low, high and flags together are the child's page
            yield from _records(file, page_bytes, low | high << 16 | upper << 32)
            continue
        at, size = place + _NODE.size + key_size, low | high << 16
        (transaction,) = _NUMBER.unpack_from(page, place + _NODE.size)
        if upper & _ON_PAGES:
            (first,) = _NUMBER.unpack_from(page, at)
            value = os.pread(file, size, first * page_bytes + _PAGE.size)
        else:
            value = page[at : at + size]
        yield transaction, _numbers(value)


def _numbers(value: bytes) -> Sequence[int]:
    """Page numbers in a record: its first number is their count."""
    numbers = array("Q", value)
    return numbers[1 : 1 + numbers[0]]


def _runs(pages: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield descending page numbers as runs: first page, number of pages."""
    first = count = 0
    for page in pages:
        if count and page == first - 1:
            first, count = page, count + 1
            continue
        if count:
            yield first, count
        first, count = page, 1
    if count:
        yield first, count


def _readers(environment: lmdb.Environment) -> Iterator[int]:
    """Yield the transactions that readers see, from LMDB's table of readers: process, thread, transaction."""
    for line in environment.readers().splitlines():
        *_, transaction = line.split() or [""]
        if transaction.isdecimal():
            yield int(transaction)
