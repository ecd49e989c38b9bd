"""Sealed segments of the event log as files: their list, their checksums, and their bytes.

All disk access is done in threads, few at a time, because messages have priority on the disk. A sealed segment never
changes, so its checksum is computed once and remembered while the file is the same one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import trio
from trio.to_thread import run_sync

from leveret_events.segment_names import SegmentName, sealed_segments

CHUNK_BYTES = 256 * 1024
REMEMBERED_MAX = 10_000
"""Checksums that are remembered: some three mebibytes."""


class SegmentFile(NamedTuple):
    """A sealed segment: its name, its size in bytes, its SHA-256 in hexadecimal digits."""

    name: SegmentName
    size: int
    sha256: str


class _Identity(NamedTuple):
    """Properties by which a file differs from another of the same name, such as a restored one."""

    inode: int
    size: int
    modified_ns: int


class SegmentFiles:
    """The sealed segments in a directory, which need not exist."""

    def __init__(self, directory: Path, reads_max: int) -> None:
        """`reads_max`: threads that may read at a time."""
        self._directory = directory
        self._readers = trio.CapacityLimiter(reads_max)
        self._hashing = trio.Lock()
        self._sha256: dict[SegmentName, tuple[_Identity, str]] = {}

    async def behind(self, after: Mapping[str, SegmentName], limit: int) -> tuple[list[SegmentFile], bool]:
        """Return at most `limit` segments, the oldest first node by node, and True if there are more.

        `after` has for each node the last segment that the caller knows. Raises OSError.
        """
        names = await run_sync(_names, self._directory, after, limiter=self._readers)
        found: list[SegmentFile] = []
        while names and len(found) < limit:
            part = limit - len(found)
            found += await self._looked_at(names[:part])
            names = names[part:]
        return found, bool(names)

    async def find(self, name: SegmentName) -> SegmentFile | None:
        """A segment, or None if there is none of this name. Raises OSError."""
        found = await self._looked_at([name])
        return found[0] if found else None

    async def open(self, segment: SegmentFile, start: int, end: int) -> FileSlice:
        """Open the bytes from `start` to before `end`. Raises OSError; FileNotFoundError if the file was removed."""
        path = self._directory / str(segment.name)
        descriptor = await run_sync(os.open, path, os.O_RDONLY | os.O_CLOEXEC, limiter=self._readers)
        return FileSlice(descriptor, start, end, self._readers)

    async def _looked_at(self, names: list[SegmentName]) -> list[SegmentFile]:
        """The segments of these names that exist."""
        identities = await run_sync(_identities, self._directory, names, limiter=self._readers)
        found = []
        for name, identity in identities:
            sha256 = self._remembered(name, identity) or await self._hash(name, identity)
            if sha256 is not None:
                found.append(SegmentFile(name, identity.size, sha256))
        return found

    def _remembered(self, name: SegmentName, identity: _Identity) -> str | None:
        known = self._sha256.get(name)
        return known[1] if known is not None and known[0] == identity else None

    async def _hash(self, name: SegmentName, identity: _Identity) -> str | None:
        async with self._hashing:  # one at a time: a second request for the same file finds it done
            sha256 = self._remembered(name, identity)
            if sha256 is None:
                sha256 = await run_sync(_sha256_of, self._directory / str(name), limiter=self._readers)
                if sha256 is not None:
                    self._remember(name, identity, sha256)
        return sha256

    def _remember(self, name: SegmentName, identity: _Identity, sha256: str) -> None:
        if len(self._sha256) >= REMEMBERED_MAX:
            del self._sha256[next(iter(self._sha256))]  # the first that was added: segments are removed oldest first
        self._sha256[name] = identity, sha256


class FileSlice:
    """A range of bytes of an open file, read in chunks. The file may be removed meanwhile; `close` has to be called."""

    def __init__(self, descriptor: int, start: int, end: int, readers: trio.CapacityLimiter) -> None:
        self._descriptor = descriptor
        self._next = start
        self._end = end
        self._readers = readers
        self._size = end - start

    def __len__(self) -> int:
        return self._size

    async def read(self) -> bytes:
        """Read the next chunk; empty at the end. Raises OSError, also if the file ends too soon."""
        size = min(CHUNK_BYTES, self._end - self._next)
        if not size:
            return b""
        chunk = await run_sync(os.pread, self._descriptor, size, self._next, limiter=self._readers)
        if not chunk:
            raise OSError("the file has become shorter")
        self._next += len(chunk)
        return chunk

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


# In threads


def _names(directory: Path, after: Mapping[str, SegmentName]) -> list[SegmentName]:
    try:
        names = sealed_segments(directory)
    except FileNotFoundError:  # nothing was recorded yet
        return []
    return [name for name in names if name.node not in after or name > after[name.node]]


def _identities(directory: Path, names: list[SegmentName]) -> list[tuple[SegmentName, _Identity]]:
    found = []
    for name in names:
        try:
            status = (directory / str(name)).stat()
        except FileNotFoundError:  # removed since, to make room
            continue
        found.append((name, _Identity(status.st_ino, status.st_size, status.st_mtime_ns)))
    return found


def _sha256_of(path: Path) -> str | None:
    try:
        with path.open("rb", buffering=0) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
