"""What a connection has to say, until its socket takes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from broker.entities.scheduling.turn import Outbound, Turn
from broker.wire.frames import Piece

PIECES_MAX: Final = 512
"""How many pieces go to a socket at once; IOV_MAX is 1024."""
PIECE_BYTES_MIN: Final = 4096
"""From this size on, on the average, pieces are not joined."""


class PublishAnswers(Protocol):
    """What a channel has to say of its client's publishes: its ledger of confirms."""

    def frames(self) -> list[bytes]:
        """The answers that are due, each a frame."""


class Output(Outbound):
    """Bytes to send, bounded by asking first: consumers are given nothing while there is no `room`.

    Confirms are not encoded before the output is taken: while a client does not read they stay ranges.
    `on_flush` is called at the end of a turn that had something to say, `on_room` when there is room again.
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
        """Put bytes behind what is waiting to be sent."""
        self._parts.append(data)
        self._bytes += len(data)
        if not self._dirty:
            self.touch()

    def send_all(self, pieces: list[Piece], size: int) -> None:
        """Put many at once, `size` bytes together, behind what is waiting to be sent."""
        self._parts += pieces
        self._bytes += size
        if not self._dirty:
            self.touch()

    def answer(self, answers: PublishAnswers) -> None:
        """A channel has confirms to send when the output is taken."""
        self._answering[answers] = None
        self.touch()

    def touch(self) -> None:
        """Have `on_flush` called at the end of the turn."""
        if not self._dirty:
            self._dirty = True
            self._turn.outbound.append(self)

    def flush(self) -> None:
        """End of the turn: the output can be taken."""
        self._dirty = False
        if self._on_flush is not None:
            self._on_flush()

    def take(self) -> bytes:
        """Everything there is to send, confirms last."""
        return b"".join(self.take_pieces())

    def take_pieces(self) -> list[Piece]:
        """The same: in one piece, or in a few large ones, which to join would copy large bodies once more."""
        pieces, size = self._parts, self._bytes
        for answers in self._answering:
            pieces.extend(answers.frames())
        self._answering.clear()
        self._parts = []
        self._bytes = 0
        large = len(pieces) <= PIECES_MAX and size >= len(pieces) * PIECE_BYTES_MIN
        return pieces if large or not pieces else [b"".join(pieces)]

    def unsent(self, size: int) -> None:
        """So much of what was taken is still on its way to the client: called after every attempt to send."""
        self._unsent = size
        if self._was_full and self.room() > 0:
            self._was_full = False
            if self._on_room is not None:
                self._on_room()

    def refuse_deliveries(self) -> None:
        """There is no room for deliveries from now on: the connection is about to end."""
        self._bytes_max = 0

    def end(self) -> None:
        """The connection has ended. Without its callbacks, which refer to it, it is freed at once."""
        self._on_flush = self._on_room = None

    @property
    def pending(self) -> int:
        """Bytes that the client has not taken yet."""
        return self._bytes + self._unsent

    def room(self) -> int:
        """How many more bytes are welcome; 0: none."""
        room = self._bytes_max - self._bytes - self._unsent
        if room > 0:
            return room
        self._was_full = True
        return 0
