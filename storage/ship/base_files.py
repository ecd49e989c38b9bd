"""A shipped base as files: its parts are put together, and the records between them applied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from storage.ship.rebuilt_store import RebuiltStore
from storage.ship.sealed_piece import OpenedPiece, PieceKind
from storage.ship.shipped_chains import ShippedBase
from storage.ship.shipped_records import ShippedRecord, unpack
from storage.storage_errors import StoreCorrupt

RECORDS_FILE = "records"
"""Records between the parts of a base, in the directory that is restored, until the base is whole."""


class _Parts(NamedTuple):
    """The base is in its files. `sizes`: of the payloads of the records between its parts; the digest of its end."""

    sizes: list[int]
    digest: bytes


def rebuild(
    pieces: Iterator[OpenedPiece], base: ShippedBase, messages: Path, definitions: Path
) -> tuple[RebuiltStore, bytes]:
    """Write a base into two paths, where nothing is, from its pieces; those behind it are left.

    Returns the open store, with nothing committed behind the base, and the digest of the base's last piece. Raises
    StoreError and OSError.
    """
    messages.mkdir(mode=0o700)
    spool = messages.with_name(RECORDS_FILE)
    parts = _write_parts(pieces, base, messages / "data.mdb", definitions, spool)
    with ExitStack() as undo:
        store = undo.enter_context(RebuiltStore(messages, definitions))
        for record in _spooled(spool, parts.sizes):
            store.apply(record)
        spool.unlink()
        undo.pop_all()
        return store, parts.digest


def _write_parts(
    pieces: Iterator[OpenedPiece], base: ShippedBase, data: Path, definitions: Path, spool: Path
) -> _Parts:
    """Raises StoreCorrupt."""
    sizes, end = list[int](), b""
    with data.open("wb") as data_file, definitions.open("wb") as definitions_file, spool.open("wb") as spool_file:
        for piece, payload, digest in pieces:
            end = digest
            if piece.kind is PieceKind.RECORDS:
                sizes.append(spool_file.write(payload))
            elif piece.first == base.first and piece.kind is PieceKind.MESSAGES:
                data_file.write(payload)
            elif piece.first == base.first and piece.kind is PieceKind.DEFINITIONS:
                definitions_file.write(payload)
            if piece.number == base.end:
                break
    for path, size in ((data, base.contents.messages_bytes), (definitions, base.contents.definitions_bytes)):
        path.chmod(0o600)
        if path.stat().st_size != size:
            raise StoreCorrupt(f"parts of the base are missing: {path.name} has {path.stat().st_size} bytes of {size}")
    return _Parts(sizes, end)


def _spooled(spool: Path, sizes: list[int]) -> Iterator[ShippedRecord]:
    with spool.open("rb") as file:
        for size in sizes:
            yield from unpack(file.read(size))
