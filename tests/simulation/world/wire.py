"""One connection as its socket has it: bytes in pieces, buffers with an end, a client that may not read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from broker.session.connection import Connection
from broker.session.input.incoming_frames import IncomingFrames
from broker.session.peer import Peer
from tests.simulation.world.process import Process

PEER = Peer("127.0.0.1", 50000, "127.0.0.1", 5672, loopback=True)
SOCKET_BYTES = 4096
BACKLOG_BATCHES_MAX = 4


class Line:
    """Bytes between a client and a connection, as broker/server/net/transport.py moves them.

    `on_bytes` is given what the broker sends when its side of the socket takes it, `on_end` is called when the broker
    closes. A piece that is sent may have a word to say when the broker has just taken all of it, before the turn ends.
    """

    def __init__(self, process: Process, on_bytes: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._process = process
        self._on_bytes = on_bytes
        self._on_end = on_end
        self._sending: deque[tuple[bytes, Callable[[], None] | None]] = deque()
        self._handleed: Callable[[], None] | None = None
        self._buffered = 0
        self._unsent = b""
        self._pumping = False
        self._stopped_at = 0
        self.reading = True
        self.catching_up = False
        """What is taken now has waited for a while."""
        self.closed = False
        self.connection = Connection(process.registry, PEER, self._flush)
        self._frames = IncomingFrames(self.connection)

    def stop_reading(self) -> None:
        """Take no more than the socket's buffer holds, until `read_on`."""
        self.reading = False
        self._stopped_at = self._process.agenda.times.now

    @property
    def said_since(self) -> int:
        """When the broker may have said, at the earliest, what is taken now; milliseconds of the monotonic clock."""
        return self._stopped_at if self.catching_up else self._process.agenda.times.now

    @property
    def waiting(self) -> int:
        """How many bytes the broker has for the client that its side of the socket did not take."""
        return self.connection.output.pending

    @property
    def taken_in(self) -> bool:
        """The broker has handled everything that was sent."""
        return not (self._sending or self._frames.unfinished)

    @property
    def taken_in_so_far(self) -> bool:
        """Nothing of what the broker has read waits to be handled."""
        return not self._frames.unfinished

    @property
    def stuck(self) -> bool:
        """Something was sent that the broker would read now, had it been asked again."""
        return not self.taken_in and not self._pumping and self._readable()

    # To the broker

    def send(self, data: bytes, handled: Callable[[], None] | None = None) -> None:
        """Send; `handled` is called when the broker has taken the last of these bytes, or holds what it took."""
        self._sending.append((data, handled))
        self.pump()

    def pump(self) -> None:
        """Have the broker read what was sent, unless it does not want to."""
        if self._pumping:
            return
        self._pumping = True
        while not self.taken_in and self._readable():
            if self._frames.unfinished:
                self._frames.receive(b"")
            else:
                data, self._handleed = self._sending.popleft()
                self._frames.receive(data)
            handled, self._handleed = self._handleed, None
            if handled is not None and not self.closed:
                handled()
            self._process.end_turn()
        self._pumping = False

    def _readable(self) -> bool:
        connection, process = self.connection, self._process
        if self.closed or not process.alive or connection.ended or not connection.readable:
            return False
        return not (connection.publishes and process.behind > BACKLOG_BATCHES_MAX)

    # From the broker

    def _flush(self) -> None:
        if self.closed:
            self.connection.output.take()
            return
        if not self._unsent:
            self._push(self.connection.output.take())
        if self.connection.ended:
            self._process.agenda.after(0, self._ended)

    def _push(self, data: bytes) -> None:
        size = len(data) if self.reading else min(len(data), SOCKET_BYTES - self._buffered)
        self._unsent = data[size:]
        self._buffered = 0 if self.reading else self._buffered + size
        self.connection.output.unsent(len(self._unsent))
        if size:
            self._on_bytes(data[:size])

    def read_on(self) -> None:
        """The client reads again, whatever has piled up."""
        self.reading = True
        self._buffered = 0
        self._catch_up()
        if not self.closed:
            self._process.end_turn()
            self.pump()

    def _catch_up(self) -> None:
        self.catching_up = bool(self._unsent)
        while self._unsent and not self.closed:
            self._push(self._unsent)
            if not self._unsent:
                self._push(self.connection.output.take())
        self.catching_up = False

    def _ended(self) -> None:
        if self._process.alive:
            self.drop()
        self._on_end()

    def drop(self, released: Callable[[], None] | None = None) -> None:
        """The socket is gone; `released` is called when the broker has taken back what the client held."""
        if self.closed:
            return
        self.lose()
        self.connection.release()
        if released is not None:
            released()
        self._process.end_turn()

    def lose(self) -> None:
        """What the broker has said until now it has said, whoever has heard it."""
        if self.closed:
            return
        self.reading = True
        self._catch_up()
        self._push(self.connection.output.take())
        self.closed = True
