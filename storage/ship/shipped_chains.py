"""Reads what was shipped: the chains at a target, the bases in them, and the pieces, each checked.

A listing may lack what was put last, for a while. So it is never the last word: newer chains are named by the epochs,
the ends of bases by marks in their chain, and the next piece is asked for by its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import msgspec

from storage.ship.announced_chains import AnnouncedChains
from storage.ship.sealed_piece import (
    OpenedPiece,
    PieceKind,
    StoreName,
    digest_before_first,
    mark_name,
    parse_chain_name,
    parse_mark_name,
    parse_piece_name,
    piece_name,
    unseal,
)
from storage.ship.targets.ship_target import ShipTarget
from storage.storage_errors import StoreCorrupt, StoreIncompatible


class BaseEnd(msgspec.Struct, frozen=True, array_like=True):
    """The payload of a piece that ends a base: position of the next record, bytes of both parts."""

    position: int
    messages_bytes: int
    definitions_bytes: int


class ShippedBase(NamedTuple):
    """A whole base: its chain, its first piece, the one that ends it, and the moment from which on it can be used."""

    chain: str
    store: StoreName
    first: int
    end: int
    time: int
    contents: BaseEnd


class ShippedBases(NamedTuple):
    """The whole bases at a target, oldest first, and sentences about those whose end cannot be read."""

    found: list[ShippedBase]
    damaged: list[str]


def chains_of_store(target: ShipTarget, store: str = "", announced: AnnouncedChains | None = None) -> list[str]:
    """Return the names of all chains, in the order of boots. Raises StoreIncompatible if they are of several stores.

    `store`: the beginning of the UUID of the only store whose chains may be there; empty: any. `announced`: of whoever
    asks often.
    """
    listed = target.chains()  # first: it fails for a directory that is not mounted
    every = {*listed, *(announced or AnnouncedChains(target)).names()}
    found = {name: parsed for name in every if (parsed := parse_chain_name(name)) is not None}
    stores = {parsed.store for parsed in found.values()}
    if len(stores | ({store} if store else set())) > 1:
        names = ", ".join(sorted(stores))
        raise StoreIncompatible(f"{target} has what other stores have shipped ({names}): give each a place of its own")
    return sorted(found)


def read_bases(target: ShipTarget) -> ShippedBases:
    """Read the ends of all bases. Raises OSError, StoreIncompatible.

    The newest is that of the latest time: a directory that was promoted again goes on with lower boots than the one
    restored from it.
    """
    bases = ShippedBases([], [])
    for chain in chains_of_store(target):
        found, damaged = bases_of(target, chain)
        bases.found.extend(found)
        bases.damaged.extend(damaged)
    bases.found.sort(key=lambda base: base.time)
    return bases


def bases_of(target: ShipTarget, chain: str) -> ShippedBases:
    """Read the ends of the bases in one chain. Raises OSError."""
    bases, names = ShippedBases([], []), target.names(chain)
    listed = {number for number, kind in filter(None, map(parse_piece_name, names)) if kind is PieceKind.BASE}
    for number in sorted(listed | _marked(target, chain, names)):
        try:
            bases.found.append(_base(target, chain, piece_name(number, PieceKind.BASE)))
        except FileNotFoundError:
            continue  # marked, and not put; or removed since it was listed
        except StoreCorrupt as error:
            bases.damaged.append(str(error))
    return bases


def _marked(target: ShipTarget, chain: str, names: list[str]) -> set[int]:
    """Return the numbers of the pieces that end bases, by the last mark that is listed and those behind it."""
    numbers = set[int]()
    for ordinal in count(max(filter(None, map(parse_mark_name, names)), default=1)):
        try:
            data = target.get(chain, mark_name(ordinal))
        except FileNotFoundError:
            return numbers
        if data.isdigit():  # else it is damaged: there is the listing
            numbers.add(int(data))
    raise AssertionError("counting has no end")


def _base(target: ShipTarget, chain: str, name: str) -> ShippedBase:
    piece, payload, _digest = unseal(target.get(chain, name), f"{chain}/{name}")
    try:
        contents = msgspec.msgpack.decode(payload, type=BaseEnd)
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(f"{chain}/{name} cannot be read ({error})") from error
    return ShippedBase(chain, piece.store, piece.first, piece.number, piece.time, contents)


def read_pieces(target: ShipTarget, base: ShippedBase) -> Iterator[OpenedPiece]:
    """Yield the pieces of a base's chain from its first on. Raises StoreCorrupt at one that is damaged or missing.

    Pieces before the base are not read: they may be gone.
    """
    names = dict(filter(None, map(parse_piece_name, target.names(base.chain))))
    last = max(names, default=0)
    expected = digest_before_first(base.chain) if base.first == 1 else b""
    for number in count(base.first):
        found = _get(target, base.chain, number, names.get(number))
        if found is None and number > last:
            return
        if found is None:
            raise StoreCorrupt(f"piece {number} of {base.chain} is missing")
        kind, data = found
        name = f"{base.chain}/{piece_name(number, kind)}"
        opened = unseal(data, name)
        piece = opened.piece
        if (piece.number, piece.kind, piece.store) != (number, kind, base.store):
            raise StoreCorrupt(f"{name} is another piece than its name says")
        if expected and piece.previous != expected:
            raise StoreCorrupt(f"{name} does not follow the piece before it")
        expected = opened.digest
        yield opened


def is_there(target: ShipTarget, chain: str, number: int) -> bool:
    """Return whether there is a piece of this number, by its name. It is read."""
    return _get(target, chain, number, None) is not None


def _get(target: ShipTarget, chain: str, number: int, kind: PieceKind | None) -> tuple[PieceKind, bytes] | None:
    """Read a piece; None if it is not there. `kind`: as it was listed; a listing may lack pieces that are there."""
    for each in reversed(PieceKind) if kind is None else (kind,):
        try:
            return each, target.get(chain, piece_name(number, each))
        except FileNotFoundError:
            pass
    return None
