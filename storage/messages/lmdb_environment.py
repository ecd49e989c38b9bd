"""The LMDB environment of a message store: creating, locking, checking, opening and compacting it.

LMDB alone does not survive a crash during its first write, and never syncs directories. So a store is made in a
temporary directory, synced, and renamed into place; the same for a compacted copy. The lock file beside
the directory is held by one process, so leftovers of an interrupted attempt can be removed by name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import struct
import time
from pathlib import Path

import lmdb

from storage import synced_files
from storage.journal.journal_mark import NO_BATCH_YET
from storage.lock_file import flocked, holder, lock_file
from storage.messages.keys import IDENTITY, JOURNAL_MARK
from storage.messages.small_records import StoreIdentity
from storage.messages.store_origin import NEVER_RESTORED, StoreOrigin, read_origin
from storage.space import free_pages
from storage.storage_errors import StoreCorrupt, StoreError, StoreFull, StoreIncompatible, StoreIncomplete, StoreLocked

MAP_BYTES = 1 << 40
"""Address space, not disk space: the free disk is the limit. With a lower `ulimit -v`, half of that."""

READERS_BYTES = 8192
"""The table of 126 readers, LMDB's default."""

READERS_SECONDS = 10.0
LOOK_SECONDS = 0.02
"""Time that opening a store waits for its readers, and interval of looking."""

COMPACT_FILE_BYTES = 64 << 20
COMPACT_LIVE_BYTES = 256 << 20
COMPACT_RATIO = 4


def open_environment(directory: Path, *, readonly: bool = False) -> lmdb.Environment:
    """Open LMDB with the settings that make a commit durable; any others lose commits or corrupt the file.

    Raises lmdb.Error; StoreError if the address space of the process is too small for the file.
    """
    space, size = address_space(), (directory / "data.mdb").stat().st_size
    if size > space:
        limit = f"the address space is limited to {resource.getrlimit(resource.RLIMIT_AS)[0]} bytes (ulimit -v)"
        raise StoreError(f"{directory}: {limit}, and {size} bytes of messages need twice as much: allow more")
    if not readonly:
        _allocate_readers(directory)
    return lmdb.Environment(
        str(directory),
        map_size=space,
        create=False,
        readonly=readonly,
        lock=not readonly,
        sync=True,
        metasync=True,
        writemap=False,
    )


def _allocate_readers(directory: Path) -> None:
    """Allocate LMDB's table of readers, which it maps: on a full disk, writing to it would kill the process.

    Raises StoreFull.
    """
    path = directory / "lock.mdb"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(descriptor).st_size < READERS_BYTES:
                synced_files.allocate(descriptor, READERS_BYTES)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StoreFull(f"{path}: the disk is full: free some space") from error


def address_space() -> int:
    """Address space of a store in bytes, whole mebibytes."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return MAP_BYTES if limit == resource.RLIM_INFINITY else min(MAP_BYTES, limit // 2 >> 20 << 20)


def lock(directory: Path) -> int:
    """Lock the store for this process. Returns a descriptor to close at the end. Raises StoreLocked, or StoreError.

    Readers, such as `leveret inspect`, share the lock; waits READERS_SECONDS for them.
    """
    path = lock_file(directory)
    try:
        synced_files.make_directory(directory.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (FileExistsError, NotADirectoryError) as error:
        raise StoreError(f"{directory.parent.absolute()} is a file, or below one: expected a directory") from error
    except OSError as error:
        text = f"{path.absolute()} cannot be made ({error.strerror}): check that this user may write there"
        raise StoreError(text) from error
    deadline = time.monotonic() + READERS_SECONDS
    while flocked(descriptor, fcntl.LOCK_SH) and time.monotonic() < deadline:
        if flocked(descriptor, fcntl.LOCK_EX):
            return descriptor
        time.sleep(LOOK_SECONDS)
    return _locked(descriptor, fcntl.LOCK_EX, directory)


def hold(directory: Path) -> int | None:
    """Keep a store from being opened by a broker, and make nothing: a descriptor to close in the end.

    Several readers may hold one store. None for a store that was never locked, such as a copy. Raises StoreLocked,
    or StoreError.
    """
    path = lock_file(directory)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be opened ({error}): check that this user may read it") from error
    return _locked(descriptor, fcntl.LOCK_SH, directory)


def _locked(descriptor: int, how: int, directory: Path) -> int:
    if not flocked(descriptor, how):
        pid = holder(descriptor)
        os.close(descriptor)
        path = lock_file(directory).absolute()
        other = "another process" if pid is None else f"process {pid}"
        raise StoreLocked(f"{directory} is in use by {other} ({path} is locked): stop that one first")
    return descriptor


def exists(directory: Path) -> bool:
    """True if there is a file, or a directory that is not empty."""
    return directory.exists() and (not directory.is_dir() or any(directory.iterdir()))


def create(directory: Path, uuid: bytes) -> None:
    """Create an empty store: complete and synced, or not at all."""
    fresh = directory.with_name(f"{directory.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    with lmdb.Environment(str(fresh), map_size=address_space()) as environment:
        with environment.begin(write=True) as txn:
            txn.put(IDENTITY, StoreIdentity(uuid, 0).encode())
            txn.put(JOURNAL_MARK, NO_BATCH_YET.encode())
        environment.sync(True)
    synced_files.sync_file(fresh / "data.mdb")
    synced_files.sync_directory(fresh)
    fresh.rename(directory)
    synced_files.sync_directory(directory.parent)


def check_identity(directory: Path, uuid: bytes | None) -> StoreIdentity:
    """Read the store's identity, and write nothing.

    Raises StoreIncompatible, also for another `uuid`, or StoreCorrupt.
    """
    if not directory.exists():
        raise StoreIncompatible(f"{directory} does not exist: name the data directory of a broker")
    if not (directory / "data.mdb").is_file():
        raise StoreIncompatible(
            f"{directory / 'data.mdb'} is missing, there is no message store: put it back, restore a backup by "
            "`leveret restore`, or choose another directory"
        )
    _refuse_cut_short(directory / "data.mdb")  # before LMDB maps it: a page behind the end would kill the process
    try:
        with open_environment(directory, readonly=True) as environment, environment.begin(buffers=True) as txn:
            record = txn.get(IDENTITY)
            if record is None:
                raise StoreIncompatible(f"{directory} is an LMDB environment of something else: choose another one")
            identity = StoreIdentity.decode(record)
    except lmdb.Error as error:
        raise StoreCorrupt(
            f"{directory / 'data.mdb'} cannot be read as LMDB ({error}): restore it from a backup"
        ) from error
    except (StoreIncompatible, StoreCorrupt) as error:
        raise type(error)(f"{directory}: {error}") from None
    if uuid is not None and identity.uuid != uuid:
        raise StoreIncompatible(
            f"{directory} belongs to other definitions (store {identity.uuid.hex()}, wanted {uuid.hex()}): "
            "use the two files of one broker together"
        )
    return identity


def origin_of(directory: Path) -> StoreOrigin:
    """Read the origin of a store that is not open; NEVER_RESTORED if there is no store.

    Raises as `check_identity` does.
    """
    if not exists(directory):
        return NEVER_RESTORED
    check_identity(directory, None)
    with open_environment(directory, readonly=True) as environment, environment.begin() as txn:
        return read_origin(txn)


def _refuse_cut_short(data: Path) -> None:
    """Raise StoreIncomplete if pages in use lie behind the end of the file: reading them would kill the process.

    The file may end before the last numbered page: LMDB does not write pages that one transaction took and freed.
    """
    with data.open("rb") as file:
        root, size = free_pages.read_root(file.fileno()), data.stat().st_size
        if root is None or size >= (root.last_page + 1) * root.page_bytes:
            return
        try:
            missing = set(range(size // root.page_bytes, root.last_page + 1)) - free_pages.listed_pages(file.fileno())
        except (struct.error, IndexError):  # the list of free pages is behind the end, too
            missing = {root.last_page}
    if missing:
        raise StoreIncomplete(
            f"{data} is cut short at {size} bytes: pages up to {root.last_page} are in use; bring the file back, or "
            "restore a backup with `leveret restore`"
        )


def cut_back(directory: Path) -> None:
    """Cut off what a failed commit left behind the last page in use: it may have filled the disk."""
    with (directory / "data.mdb").open("r+b") as file:
        free_pages.cut_back(file.fileno())


def compact_if_worth_it(directory: Path) -> bool:
    """Replace the file by a compact copy, if most of it is free and the rest is copied quickly. True if it was done."""
    data, fresh = directory / "data.mdb", directory.with_name(f"{directory.name}.compact")
    shutil.rmtree(fresh, ignore_errors=True)
    file_bytes = data.stat().st_size
    if file_bytes < COMPACT_FILE_BYTES:
        return False
    with open_environment(directory, readonly=True) as environment:
        live = free_pages.live_bytes(environment)
        if live > COMPACT_LIVE_BYTES or live * COMPACT_RATIO > file_bytes:
            return False
        fresh.mkdir(mode=0o700)
        try:
            environment.copy(str(fresh), compact=True)
        except lmdb.Error:
            # Probably no room for the copy. The store is intact, only larger than need be.
            shutil.rmtree(fresh, ignore_errors=True)
            return False
    synced_files.sync_file(fresh / "data.mdb")
    (fresh / "data.mdb").rename(data)
    synced_files.sync_directory(directory)
    shutil.rmtree(fresh, ignore_errors=True)
    return True
