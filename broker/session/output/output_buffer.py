"""The output of a connection until its socket takes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from broker.entities.scheduling.turn import Outbound, Turn
from broker.wire.frames import Piece

PIECES_MAX: Final = 512
"""Pieces sent to a socket at once; IOV_MAX is 1024."""
PIECE_BYTES_MIN: Final = 4096
"""Average size from which pieces are not joined."""


class PublishAnswers(Protocol):
    """The confirms of a channel that are due: its confirm ledger."""

    def frames(self) -> list[bytes]:
        """Return the answers that are due, each a frame."""


class Output(Outbound):
    """Bytes to send. It is bounded because consumers get no deliveries while `room` is 0.

    Confirms are encoded when the output is taken: while a client does not read they stay ranges.
    `on_flush` is called at the end of a turn with output, `on_room` when there is room again after there was none.
    """

    __slots__ = (
        "_answering",
        "_bytes",
        "_bytes_max",
        "_dirty",
        "_on_flush",
        "_on_room",
        "_parts",
        "_turn",
        "_unsent",
        "_was_full",
    )

    def __init__(self, turn: Turn, bytes_max: int, on_flush: Callable[[], None], on_room: Callable[[], None]) -> None:
        self._turn = turn
        self._bytes_max = bytes_max
        self._on_flush: Callable[[], None] | None = on_flush
        self._on_room: Callable[[], None] | None = on_room
        self._parts: list[Piece] = []
        self._bytes = 0
        self._unsent = 0
        self._was_full = False
        self._dirty = False
        self._answering: dict[PublishAnswers, None] = {}

    def send(self, data: bytes) -> None:
        """Append bytes."""
        self._parts.append(data)
        self._bytes += len(data)
        if not self._dirty:
            self.touch()

    def send_all(self, pieces: list[Piece], size: int) -> None:
        """Append pieces of `size` bytes together."""
        self._parts += pieces
        self._bytes += size
        if not self._dirty:
            self.touch()

    def answer(self, answers: PublishAnswers) -> None:
        """Note that a channel has confirms, to be encoded when the output is taken."""
        self._answering[answers] = None
        self.touch()

    def touch(self) -> None:
        """Have `on_flush` called at the end of the turn."""
        if not self._dirty:
            self._dirty = True
            self._turn.outbound.append(self)

    def flush(self) -> None:
        """Call `on_flush`: the turn ends, and the output can be taken."""
        self._dirty = False
        if self._on_flush is not None:
            self._on_flush()

    def take(self) -> bytes:
        """Remove and return all bytes, confirms last."""
        return b"".join(self.take_pieces())

    def take_pieces(self) -> list[Piece]:
        """Remove and return all bytes: in one piece, or in a few large ones to save copying large bodies."""
        pieces, size = self._parts, self._bytes
        for answers in self._answering:
            pieces.extend(answers.frames())
        self._answering.clear()
        self._parts = []
        self._bytes = 0
        large = len(pieces) <= PIECES_MAX and size >= len(pieces) * PIECE_BYTES_MIN
        return pieces if large or not pieces else [b"".join(pieces)]

    def unsent(self, size: int) -> None:
        """Note, after each attempt to send, how many of the bytes taken the socket has not accepted yet."""
        self._unsent = size
        if self._was_full and self.room() > 0:
            self._was_full = False
            if self._on_room is not None:
                self._on_room()

    def refuse_deliveries(self) -> None:
        """Leave no room for deliveries: the connection is about to end."""
        self._bytes_max = 0

    def end(self) -> None:
        """Drop the callbacks, which refer to the ended connection, so that it is freed at once."""
        self._on_flush = self._on_room = None

    @property
    def pending(self) -> int:
        """Bytes that the client has not accepted yet."""
        return self._bytes + self._unsent

    def room(self) -> int:
        """Return how many more bytes deliveries may add; 0 if none."""
        room = self._bytes_max - self._bytes - self._unsent
        if room > 0:
            return room
        self._was_full = True
        return 0
