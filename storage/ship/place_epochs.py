"""Epochs of a place: which broker may ship there.

Each start of a broker that ships, and each promotion of a standby, takes the next number by creating an object of that
name, which only one can. Whoever took the newest owns the place, and all others are fenced. Epochs are never removed:
their numbers have no gap, so a broker is fenced if and only if the number after its own is taken.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from pathlib import Path

import msgspec

from storage.ship.shown_moment import moment
from storage.ship.targets.ship_target import ShipTarget
from storage.storage_errors import StoreCorrupt

FOLDER = "epochs"
"""The folder at the target, beside those of the chains."""
_SUFFIX = ".epoch"
_TOKEN_BYTES = 16


class Epoch(msgspec.Struct, frozen=True):
    """One epoch, and who took it. `token` is random: by it a broker knows its own. `time`: wall-clock milliseconds."""

    number: int
    token: str
    host: str
    directory: str
    time: int

    def __str__(self) -> str:
        return f"epoch {self.number}, taken {moment(self.time)} by {self.host}, {self.directory}"


def new_epoch(number: int, directory: Path, token: str = "") -> Epoch:
    """Return an epoch of this process, to be taken. `token`: of a try before; empty: a new one."""
    token, now = token or secrets.token_hex(_TOKEN_BYTES), time.time_ns() // 1_000_000
    return Epoch(number, token, socket.gethostname(), os.fspath(directory.absolute()), now)


def take_epoch(target: ShipTarget, epoch: Epoch) -> None:
    """Take an epoch; taking the same once more does nothing. Raises PieceExists if it is another's, and OSError."""
    target.begin(FOLDER)
    target.put(FOLDER, _name(epoch.number), (msgspec.json.encode(epoch),))


def read_epoch(target: ShipTarget, number: int) -> Epoch | None:
    """Read an epoch; None if it is not taken. Raises OSError, and StoreCorrupt if it is taken and cannot be read."""
    try:
        data = target.get(FOLDER, _name(number))
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(data, type=Epoch)
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(f"{target}/{FOLDER}/{_name(number)} cannot be read ({error})") from error


def newest_epoch(target: ShipTarget) -> Epoch | None:
    """Return the newest epoch; None if none was taken. Raises OSError, StoreCorrupt.

    A listing may lack the newest ones for a while, so those behind it are read by name.
    """
    numbers = [
        int(stem) for name in target.names(FOLDER) if (stem := name.removesuffix(_SUFFIX)) != name and stem.isdecimal()
    ]
    newest = read_epoch(target, max(numbers, default=1))
    while newest is not None and (later := read_epoch(target, newest.number + 1)) is not None:
        newest = later
    return newest


def _name(number: int) -> str:
    return f"{number:012d}{_SUFFIX}"
