"""A base: a copy of both stores of a running broker, in parts, without a file of its size on this disk.

LMDB's copy is of one commit, and says in the journal's mark which batches it has; that of the definitions is of one
transaction, and has its number. So a restore leaves out the records that the base has.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
from collections.abc import Generator
from contextlib import closing, suppress
from pathlib import Path
from typing import final

import lmdb

from storage.definitions.definition_store import DefinitionStore
from storage.messages.message_store import MessageStore
from storage.messages.store_origin import BACKUP_BYTES
from storage.ship.sealed_piece import PieceKind
from storage.storage_errors import StoreError

log = logging.getLogger("leveret.ship")

PART_BYTES = 4 << 20
SCRATCH = "shipping.sqlite"
"""Copy of the definitions in the data directory, while they are shipped."""


@final
class BaseCopy:
    """One copy. LMDB keeps the pages of its moment until the messages are copied, or `abort` is called."""

    def __init__(self, messages: MessageStore, definitions: DefinitionStore, scratch: Path) -> None:
        self._messages = messages
        self._definitions = definitions
        self._scratch = scratch
        self._error: Exception | None = None
        # Sockets and not a pipe: any thread may shut them down, whatever the others are doing.
        self._read_end, self._write_end = socket.socketpair()
        self._copying = threading.Thread(target=self._copy, name="leveret-ship-base", daemon=True)

    def parts(self) -> Generator[tuple[PieceKind, bytes]]:
        """Yield the parts in order. Raises StoreError, if it was aborted too, and OSError."""
        self._copying.start()
        try:
            while part := self._next_part():
                yield PieceKind.MESSAGES, part
        finally:
            self.abort()
            self._copying.join()
            self._read_end.close()
        if self._error is not None:
            raise StoreError(f"the copy of the messages failed ({self._error})") from self._error
        try:
            self._definitions.backup(self._fresh_scratch(), secrets.token_bytes(BACKUP_BYTES))
            with self._scratch.open("rb") as file:
                while part := file.read(PART_BYTES):
                    yield PieceKind.DEFINITIONS, part
        finally:
            self._fresh_scratch()

    def abort(self) -> None:
        """End the copy of the messages, if it is not at its end. From any thread."""
        with suppress(OSError):
            self._read_end.shutdown(socket.SHUT_RDWR)

    def _copy(self) -> None:
        with closing(self._write_end):
            try:
                self._messages.copy_to(self._write_end.fileno())
            except lmdb.Error as error:
                self._error = error

    def _next_part(self) -> bytes:
        part = bytearray()
        while len(part) < PART_BYTES and (read := self._read_end.recv(PART_BYTES - len(part))):
            part += read
        return bytes(part)

    def _fresh_scratch(self) -> Path:
        """Return the path of the copy of the definitions, with nothing there."""
        for path in (self._scratch, self._scratch.with_name(f"{self._scratch.name}-wal")):
            path.unlink(missing_ok=True)
        return self._scratch
