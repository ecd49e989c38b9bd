"""Records the lives of a broker that is shipped, and reads from the record when each piece and each change was there.

The place is in the recorded directory: a piece is there when its draft has been removed, which is behind the link. The
broker marks each change in a file behind the change's sync: see `marks.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from leveret.testing.power.disk_record import Event
from storage.ship.sealed_piece import parse_chain_name
from tests.durability.crash.explorer import LOCK
from tests.durability.crash.recording.recorded import MARKS, PLACE, record_broker
from tests.durability.crash.recording.recorder import Recording
from tests.durability.shipped_states.chosen_pieces import ShippedPiece

LIVES = (4, 3, 2)
"""Steps of each client in each life of the broker."""
CONFIRMS = ("local", "shipped")
_DRAFT = ".new"


def record_shipped(home: Path, seed: int, lives: Sequence[int] = LIVES, *, planted: str = "") -> Recording:
    """Record a broker that is shipped; with an odd seed its confirms wait for the place."""
    abrupt = bool(seed & 2)
    return record_broker(home, seed, lives, planted=planted, abrupt=abrupt, offsets=False, confirm=confirm_of(seed))


def confirm_of(seed: int) -> str:
    """Return the setting `ship.confirm` of a seed's broker."""
    return CONFIRMS[seed % len(CONFIRMS)]


class ShippedRecord(NamedTuple):
    """The pieces of a record in the order in which they were there, and the changes of each boot.

    `marks`: by boot and position, the event behind which a change was on disk, and before which nobody was told of it.
    `ends`: by boot, the last event of its life.
    """

    pieces: list[ShippedPiece]
    marks: dict[tuple[int, int], int]
    ends: dict[int, int]

    def next_change(self, boot: int, position: int) -> int:
        """Return the event of the next change behind one, or the last event of the boot."""
        return self.marks.get((boot, position + 1), self.ends[boot])


class _Reading:
    """A record while it is read. A life whose chain was not begun has shipped nothing."""

    def __init__(self) -> None:
        self.pieces: list[ShippedPiece] = []
        self.marks: dict[tuple[int, int], int] = {}
        self.ends: dict[int, int] = {}
        self._drafts: dict[int, bytearray] = {}
        self._by_path: dict[str, bytearray] = {}
        self._marks_handle = 0
        self._of_life: dict[int, int] = {}
        self._boot = 0

    def follow(self, number: int, event: Event) -> None:
        """Take in the next event."""
        if event.kind == "o" and event.path.endswith(LOCK):
            self.end_life(number - 1)
        elif event.kind == "o" and event.path.endswith(f"/{MARKS}"):
            self._marks_handle = event.handle
        elif event.kind == "o" and event.path.endswith(_DRAFT) and f"/{PLACE}/" in event.path:
            self._drafts[event.handle] = self._by_path.setdefault(event.path, bytearray())  # opened again for the sync
        elif event.kind == "w" and event.handle == self._marks_handle:
            self._of_life[int.from_bytes(event.payload, "big")] = number
        elif event.kind == "w" and event.handle in self._drafts:
            self._drafts[event.handle][event.number : event.number + len(event.payload)] = event.payload
        elif event.kind == "u" and event.path in self._by_path:
            self._put(number, event.path)

    def _put(self, number: int, path: str) -> None:
        chain, draft = path.split("/")[-2:]
        name = draft.removesuffix(_DRAFT).rpartition(".")[0]
        self.pieces.append(ShippedPiece(chain, name, bytes(self._by_path[path]), number))
        if (parsed := parse_chain_name(chain)) is not None:  # and no epoch
            self._boot = parsed.boot

    def end_life(self, number: int) -> None:
        """A life of the broker has ended with this event."""
        if self._boot:
            self.marks.update({(self._boot, position): at for position, at in self._of_life.items()})
            self.ends[self._boot] = number
        self._of_life, self._boot = {}, 0


def read_shipped(events: Sequence[Event]) -> ShippedRecord:
    """Read the pieces and the changes from a record."""
    reading = _Reading()
    for number, event in enumerate(events):
        reading.follow(number, event)
    reading.end_life(len(events) - 1)
    return ShippedRecord(reading.pieces, reading.marks, reading.ends)
