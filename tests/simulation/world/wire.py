"""One connection as its socket has it: bytes in pieces, buffers with an end, a client that may not read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from broker.server.net import heartbeats
from broker.session.connection import Connection
from broker.session.input.incoming_frames import IncomingFrames
from broker.session.login.phase import Phase
from broker.session.peer import Peer
from tests.simulation.copies import Broken
from tests.simulation.world.process import TURNS_MAX, Process

PEER = Peer("127.0.0.1", 50000, "127.0.0.1", 5672, loopback=True)
SOCKET_BYTES = 4096

Handled = Callable[[], None]


class SimulatedSocket:
    """Bytes between a client and a connection, as broker/server/net/transport.py moves them.

    `on_bytes` is given what the broker sends when its side of the socket takes it, `on_end` is called when the broker
    closes. The `handled` of a piece that is sent is called when the broker has just taken all of it, before the turn
    ends. Pieces sent together are read as one; the broker may handle some of them and keep the others for a later turn.
    """

    def __init__(self, process: Process, on_bytes: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._process = process
        self._on_bytes = on_bytes
        self._on_end = on_end
        self._sending: deque[bytes] = deque()
        self._sent_bytes = 0
        self._marks: deque[tuple[int, Handled]] = deque()
        """Callbacks by count of bytes: each is called when the broker has taken that many of all that was sent."""
        self._buffered = 0
        self._unsent = b""
        self._pumping = False
        self._stopped_at = 0
        self.reading = True
        self.catching_up = False
        """True while input that has waited is taken."""
        self.closed = False
        self._going = False
        """The broker has not found out that the socket is gone."""
        self.sent_at = 0
        """Send time of the first bytes that the broker has not handled."""
        self.said_at = self.last_received = process.agenda.times.monotonic()
        """Seconds at which the client has last sent, and the broker last read something."""
        self.lay_unread = 0
        process.sockets[self] = None
        self.connection = Connection(process.registry, PEER, self._flush)
        self._frames = IncomingFrames(self.connection)

    def stop_reading(self) -> None:
        """Take no more than the socket's buffer holds, until `read_on`."""
        self.reading = False
        self._stopped_at = self._process.agenda.times.now

    @property
    def said_since(self) -> int:
        """Earliest time at which the broker may have sent the bytes taken now; milliseconds of the monotonic clock."""
        return self._stopped_at if self.catching_up else self._process.agenda.times.now

    @property
    def waiting(self) -> int:
        """Bytes that the broker has for the client and its side of the socket did not take."""
        return self.connection.output.pending

    @property
    def taken_in(self) -> bool:
        """The broker has handled everything that was sent."""
        return not (self._sending or self._frames.unfinished)

    @property
    def stuck(self) -> bool:
        """Something was sent that the broker would read now, had it been asked again."""
        return not self.taken_in and not self._pumping and self.readable()

    # To the broker

    def send(self, data: bytes, handled: Handled | None = None) -> None:
        """Send; `handled` is called when the broker has taken the last of these bytes, or holds what it took."""
        self.send_together([(data, handled)])

    def send_together(self, pieces: Sequence[tuple[bytes, Handled | None]]) -> None:
        """Send pieces that arrive as one; each has its own `handled`, called when the broker has taken that piece."""
        if self.taken_in:
            self.sent_at = self._process.agenda.times.now
        for data, handled in pieces:
            self._sent_bytes += len(data)
            if handled is not None:
                self._marks.append((self._sent_bytes, handled))
        self._sending.append(b"".join(data for data, _ in pieces))
        self.said_at = self._process.agenda.times.monotonic()
        self.pump()

    def pump(self) -> None:
        """Have the broker read what was sent, unless it does not want to."""
        if self._pumping:
            return
        self._pumping, turns = True, 0
        while not self.taken_in and self.readable():
            turns += 1
            assert turns < TURNS_MAX, "the broker takes in what was sent again and again, without end"
            self.connection.publishes = False
            self.last_received, self.lay_unread = self._process.agenda.times.monotonic(), 0
            if self._frames.unfinished:
                self._frames.receive(b"")
            else:
                self._frames.receive(self._sending.popleft())
            self._tell_what_is_taken()
            self._process.end_turn()
        self._pumping = False

    def _tell_what_is_taken(self) -> None:
        """The broker has handled all that it was given but the bytes that it keeps for later."""
        taken = self._sent_bytes - self.unread - len(self._frames._rest)
        while self._marks and self._marks[0][0] <= taken and not self.closed:
            self._marks.popleft()[1]()

    def readable(self) -> bool:
        """The broker takes in at once what is sent."""
        return not self._process.paused and self._listened_to()

    def _listened_to(self) -> bool:
        connection, process = self.connection, self._process
        if self.closed or not process.alive or connection.ended or not connection.readable:
            return False
        if not (connection.publishes or connection.incomplete_bytes):
            return True
        return not process.committer.crowded(confirmed=connection.confirmed)

    def beat(self, now: float, late: float) -> None:
        """Have the broker give up on a client that is silent. Raises Broken if it is not."""
        interval = self.connection.heartbeat
        if self.closed or not interval or self.connection.phase is not Phase.OPEN:
            return
        if heartbeats.is_silent(self, interval, now, late):
            if now - self.said_at <= 2 * interval or (self._sending and not self.connection.waits_to_be_read):
                raise Broken(f"a client was cut off that has spoken {now - self.said_at:g} s ago")
            self.connection.ended = True
            self._ended()

    @property
    def unread(self) -> int:
        return sum(map(len, self._sending))

    # From the broker

    def _flush(self) -> None:
        if self.closed and not self._going:
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
        self._process.when_running(self._read_on)

    def _read_on(self) -> None:
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
            self.drop(self._on_end)
        else:
            self._on_end()

    def drop(self, released: Callable[[], None] | None = None) -> None:
        """The socket is gone; `released` is called when the broker has taken back what the client held."""
        if self.closed:
            return
        self.lose()
        self._going = True
        self._process.when_running(lambda: self._release(released))

    def _release(self, released: Callable[[], None] | None) -> None:
        self._going = False
        self.connection.release()
        if released is not None:
            released()
        self._process.end_turn()

    def lose(self) -> None:
        """Output of the broker until now counts as sent, whoever has heard it."""
        if self.closed:
            return
        self.reading = True
        self._catch_up()
        self._push(self.connection.output.take())
        self.closed = True
        self._process.sockets.pop(self, None)
