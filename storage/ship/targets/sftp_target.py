"""A target on a server that speaks SFTP.

A piece is written under another name and synced, and gets its own by a hard link, or on a server without the extension
by SFTP's rename: neither replaces a file. OpenSSH's server syncs when it is asked to (`fsync@openssh.com`); another one
may have a piece in its memory only for a while.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import stat
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import NamedTuple, TypeVar, cast, final

import asyncssh

from storage.ship.targets.asyncio_thread import AsyncioThread
from storage.ship.targets.overwriting import refuse_overwriting
from storage.ship.targets.ship_target import PieceExists, TargetError

logging.getLogger("asyncssh").setLevel(logging.WARNING)  # at info it tells of each step of a connection

SECONDS = 60.0
"""Time in which an operation ends, with a new connection if one is needed."""
LIST_SECONDS = 600.0
"""The same for a listing, of which OpenSSH's server sends a hundred names at a time."""
CONNECT_SECONDS = 15.0
REMOVE_SECONDS = 5.0
"""Time in which a file without its name is removed; it may stay."""
KEEPALIVE_SECONDS = 15.0

Result = TypeVar("Result")
Work = Callable[[asyncssh.SFTPClient], Awaitable[Result]]


class SftpPlace(NamedTuple):
    """A directory of a server. Empty user, port 0: as `~/.ssh/config` says, else this user and 22.

    `key` and `known_hosts` are files; empty: those of `~/.ssh`, and for keys the SSH agent.
    """

    user: str
    host: str
    port: int
    path: str
    key: str = ""
    known_hosts: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.port else ""
        return f"sftp://{self.user}{'@' if self.user else ''}{host}{port}/{self.path.removeprefix('/')}"


@final
class SftpTarget:
    """The directory; see `ShipTarget`. One connection, made again when it is lost."""

    def __init__(self, place: SftpPlace) -> None:
        self._place = place
        self._root = place.path
        self._thread = AsyncioThread("leveret-ship-sftp")
        self._connecting = asyncio.Lock()
        self._connection: asyncssh.SSHClientConnection | None = None
        self._sftp: asyncssh.SFTPClient | None = None
        self._keeps = False
        """True once the server was seen not to overwrite."""

    def __str__(self) -> str:
        return str(self._place)

    def begin(self, chain: str) -> None:
        """Make a place for a chain. Raises TargetError without the directory, or if the server overwrites files."""
        self._run(lambda sftp: self._make(sftp, chain))
        if not self._keeps:
            refuse_overwriting(lambda name: self._run(lambda sftp: _created(sftp, self._path(name), b"")))
            self._keeps = True

    def put(self, chain: str, name: str, parts: tuple[bytes, ...]) -> None:
        """Write a piece, synced. One that is there already with these contents is left. Raises PieceExists."""
        path, data = self._path(chain, name), b"".join(parts)
        taken = not self._run(lambda sftp: _created(sftp, path, data))
        if taken and self.get(chain, name) != data:
            raise PieceExists(f"{self}/{chain}/{name} is there already, with other contents: ship to another place")

    def chains(self) -> list[str]:
        """Return the names of what may be chains, in the order of the alphabet."""
        return self._run(lambda sftp: _directories(sftp, self._root), LIST_SECONDS)

    def names(self, chain: str) -> list[str]:
        """Return the names of what may be pieces of a chain, in the order of the alphabet; none without the chain."""
        return self._run(lambda sftp: self._names(sftp, chain), LIST_SECONDS)

    def get(self, chain: str, name: str) -> bytes:
        """Read a piece. Raises FileNotFoundError if there is none."""
        data = self._run(lambda sftp: _contents(sftp, self._path(chain, name)))
        if data is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self}/{chain}/{name}")
        return data

    def remove(self, chain: str, name: str) -> None:
        """Remove a piece, if it is there, and a chain without pieces."""
        self._run(lambda sftp: _removed(sftp, self._path(chain, name), self._path(chain)))

    def close(self) -> None:
        """End the connection."""
        self._thread.close(self._disconnect())

    def _path(self, *parts: str) -> str:
        return "/".join((self._root.rstrip("/"), *parts))

    def _run(self, work: Work[Result], seconds: float = SECONDS) -> Result:
        """Do some work on the server. Raises TargetError."""
        try:
            return self._thread.run(self._done(work, seconds))
        except (asyncssh.Error, OSError, ValueError) as error:  # ValueError: a key that cannot be read
            raise TargetError(self._sentence(error)) from error

    async def _done(self, work: Work[Result], seconds: float) -> Result:
        try:
            async with asyncio.timeout(seconds):
                return await work(await self._connected())
        except (asyncssh.DisconnectError, asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection, OSError):
            await self._disconnect()
            raise

    async def _connected(self) -> asyncssh.SFTPClient:
        async with self._connecting:
            if self._sftp is None or self._connection is None or self._connection.is_closed():
                await self._disconnect()
                self._connection = await self._connect()
                self._sftp = await self._connection.start_sftp_client()
            return self._sftp

    async def _connect(self) -> asyncssh.SSHClientConnection:
        place = self._place
        return await asyncssh.connect(
            place.host,
            place.port or (),
            username=place.user or (),
            client_keys=[place.key] if place.key else (),
            known_hosts=place.known_hosts or (),
            connect_timeout=CONNECT_SECONDS,
            login_timeout=CONNECT_SECONDS,
            keepalive_interval=KEEPALIVE_SECONDS,
        )

    async def _disconnect(self) -> None:
        connection, self._connection, self._sftp = self._connection, None, None
        if connection is not None:
            connection.abort()
            await connection.wait_closed()

    async def _make(self, sftp: asyncssh.SFTPClient, chain: str) -> None:
        with suppress(asyncssh.SFTPFailure, asyncssh.SFTPFileAlreadyExists):
            await sftp.mkdir(self._path(chain), asyncssh.SFTPAttrs(permissions=0o700))

    async def _names(self, sftp: asyncssh.SFTPClient, chain: str) -> list[str]:
        try:
            return _sorted_names(await sftp.listdir(self._path(chain)))
        except asyncssh.SFTPNoSuchFile:
            await sftp.stat(self._root)  # raises SFTPNoSuchFile: a disk may not be mounted there at present
            return []

    def _sentence(self, error: Exception) -> str:
        """Return an error in terms of the place."""
        if isinstance(error, asyncssh.HostKeyNotVerifiable):
            known = self._place.known_hosts or "~/.ssh/known_hosts"
            return f"the host key of {self._place.host} is not in {known}: add it, if it is the right one (ssh-keyscan)"
        if isinstance(error, asyncssh.PermissionDenied):
            return f"the server lets this user in with none of its keys ({error.reason})"
        if isinstance(error, asyncssh.SFTPNoSuchFile):
            return f"there is no directory {self._root or '~'} on the server: it must be there"
        if isinstance(error, TimeoutError):
            return "the server does not answer in time"
        if isinstance(error, asyncssh.SFTPFailure):
            return f"the server fails without a reason ({error.reason}): is its disk full?"
        return str(error) or type(error).__name__


async def _created(sftp: asyncssh.SFTPClient, path: str, data: bytes) -> bool:
    """Write a file, synced. False if the name is taken."""
    if await sftp.lexists(path):
        return False
    fresh = f"{path}.{secrets.token_hex(4)}.new"  # others may write one of this name, too
    try:
        async with sftp.open(fresh, "xb", asyncssh.SFTPAttrs(permissions=0o600)) as file:
            await file.write(data)
            await _synced(file)
            if not await _named(sftp, fresh, path):
                return False
            await _synced(file)  # of most file systems, its new name too
            return True
    finally:
        with suppress(asyncssh.Error, OSError):  # it has been renamed, or the server does not answer
            async with asyncio.timeout(REMOVE_SECONDS):
                await sftp.remove(fresh)


async def _synced(file: asyncssh.SFTPClientFile) -> None:
    with suppress(asyncssh.SFTPOpUnsupported):
        await file.fsync()


async def _named(sftp: asyncssh.SFTPClient, fresh: str, path: str) -> bool:
    """Give a file its name. False if it is taken."""
    try:
        try:
            await sftp.link(fresh, path)
        except (asyncssh.SFTPOpUnsupported, asyncssh.SFTPPermissionDenied):  # not by this server, or file system
            await sftp.rename(fresh, path)
        return True
    except (asyncssh.SFTPFailure, asyncssh.SFTPFileAlreadyExists):
        if await sftp.lexists(path):
            return False
        raise


async def _contents(sftp: asyncssh.SFTPClient, path: str) -> bytes | None:
    try:
        async with sftp.open(path, "rb") as file:
            return cast(bytes, await file.read())
    except asyncssh.SFTPNoSuchFile:
        return None


async def _directories(sftp: asyncssh.SFTPClient, path: str) -> list[str]:
    names = [entry.filename async for entry in sftp.scandir(path or ".") if stat.S_ISDIR(entry.attrs.permissions or 0)]
    return _sorted_names(names)


async def _removed(sftp: asyncssh.SFTPClient, path: str, chain: str) -> None:
    with suppress(asyncssh.SFTPNoSuchFile):
        await sftp.remove(path)
    with suppress(asyncssh.SFTPFailure, asyncssh.SFTPNoSuchFile, asyncssh.SFTPDirNotEmpty):  # it has others
        await sftp.rmdir(chain)


def _sorted_names(names: Iterable[str | bytes]) -> list[str]:
    return sorted(name for each in names if (name := os.fsdecode(each)) not in (".", ".."))
