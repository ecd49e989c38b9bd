"""One client's socket.

One task reads, one `recv` per turn. While nothing has to be waited for, input is handled as it comes, without that task
(`ClientSockets`). Writing needs no task while the client keeps up: at the end of a turn the output goes straight to the
socket. The rest that the socket does not accept is sent by a task of its own;
until that has ended the connection counts as slow, and its consumers get no deliveries.
"""

from __future__ import annotations

import fcntl
import logging
import socket
import termios
from array import array
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

import trio

from broker.server.engine import LONG_TURN_SECONDS, Engine
from broker.server.net import heartbeats
from broker.server.net.client_sockets import ClientSockets
from broker.server.net.prompt_acks import PromptAcks
from broker.session.connection import Connection
from broker.session.input.incoming_frames import IncomingFrames
from broker.session.login.phase import Phase
from broker.session.peer import Peer
from broker.session.registry import Registry
from broker.settled_future import settled
from broker.wire.frames import HEARTBEAT, Piece

if TYPE_CHECKING:
    from broker.server.commits.committer import Committer

log = logging.getLogger("leveret.connection")

RECEIVE_BYTES = 256 * 1024
BUSY_BYTES = 64 * 1024
"""After a read of this size or more the next one goes into new memory: no copy, but an allocation of RECEIVE_BYTES."""
LARGE_RECEIVE_BYTES = 1024 * 1024
"""Largest such read, RECEIVE_BYTES and the missing rest of a large body: fewer turns and copies. Input behind the body
is not read for it, because it would stay in memory while the client has to wait."""
CLOSE_SECONDS = 10.0
"""Time for a client to answer connection.close."""

_buffer = bytearray(RECEIVE_BYTES)
_view = memoryview(_buffer)


def incoming_frames(connection: Connection, sock: socket.socket) -> IncomingFrames:
    """Return the part that handles a client's bytes."""
    return IncomingFrames(connection)


class TransportSettings(NamedTuple):
    """The settings of sockets, and the functions that wait for them. Times are seconds."""

    handshake_timeout: float
    readable: Callable[[socket.socket], Awaitable[None]] = trio.lowlevel.wait_readable
    writable: Callable[[socket.socket], Awaitable[None]] = trio.lowlevel.wait_writable
    incoming: Callable[[Connection, socket.socket], IncomingFrames] = incoming_frames
    sockets: ClientSockets | None = None
    """With them, input that nothing has to wait for is handled without a task."""


class Transport:
    """Moves bytes between a socket and a connection."""

    def __init__(
        self,
        sock: socket.socket,
        peer: Peer,
        registry: Registry,
        engine: Engine,
        committer: Committer,
        settings: TransportSettings,
        nursery: trio.Nursery,
    ) -> None:
        self._socket = sock
        self._engine = engine
        self._committer = committer
        self._settings = settings
        self._nursery = nursery
        self._sockets = settings.sockets
        self._reading = trio.CancelScope()
        self._unsent: memoryview | None = None
        self._sent = trio.Event()
        self._flushed = trio.Event()
        self._lost = False
        self._paused = False
        self._busy = False
        self._acks = PromptAcks(sock)
        self._round_robin = False
        """It was busy with the last input: the next is handled in turn with other busy connections."""
        self._turn_seconds = 0.0
        """CPU seconds of the last turn."""
        self._handshaking = True
        self._close_deadline_set = False
        self.last_received = self.last_sent = trio.current_time()
        self.lay_unread = 0
        self.beat_at = 0.0
        """`beat` has nothing to do before this time."""
        self._ending = trio.CancelScope()
        self.connection = Connection(registry, peer, self.flush)
        self.frames = settings.incoming(self.connection, sock)
        self._take = self.connection.output.take_pieces
        registry.handshaking[self.connection] = self.abort

    async def serve(self) -> None:
        """Serve the client until the connection has ended."""
        connection = self.connection
        try:
            self._reading.deadline = trio.current_time() + self._settings.handshake_timeout
            with self._reading:
                await self._read()
            if self._reading.cancelled_caught and not connection.parting:
                log.warning("closing connection %s: no answer in time", connection.peer, extra=connection.log_fields())
            await trio.lowlevel.checkpoint()  # release is a turn of its own: the last input was one, perhaps a long one
            released = connection.release()
            self._engine.end_turn()
            await settled(released)  # a client that connects again and again cannot outrun the release
            self._ending.deadline = trio.current_time() + CLOSE_SECONDS + connection.linger
            with self._ending:
                if connection.discards:  # what comes after close-ok, until the client closes its socket
                    with trio.move_on_after(connection.linger):
                        while await self._receive():
                            pass
                await self._all_sent()
                if not connection.discards:
                    await trio.sleep(connection.linger)
            if not self._lost:
                self._part()
        finally:
            self._lost = True
            connection.registry.handshaking.pop(connection, None)
            connection.release()
            self._engine.end_turn()
            connection.output.end()
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    def beat(self, now: float, late: float) -> None:
        """Send a heartbeat if nothing else was sent for half the interval; close the socket of a silent client.

        As in RabbitMQ it gets no connection.close. The last `late` seconds, in which no socket was read, do not count.
        """
        if self.connection.phase is not Phase.OPEN:
            return
        interval = self.connection.heartbeat
        if not interval:
            self.beat_at = float("inf")
            return
        if now - self.last_sent >= interval / 2 and self._unsent is None:
            self.connection.output.send(HEARTBEAT)
        if heartbeats.is_silent(self, interval, now, late):
            text, connection = "closing connection %s: missed heartbeats from client, timeout: %ds", self.connection
            log.warning(text, connection.peer, interval, extra=connection.log_fields())
            self.abort()
        self.beat_at = min(self.last_sent + interval / 2, self.last_received + 2 * interval)

    @property
    def sending(self) -> bool:
        """True if the socket has not accepted all output."""
        return self._unsent is not None

    @property
    def unread(self) -> int:
        """Bytes in the socket's receive buffer."""
        count = array("i", [0])
        try:
            fcntl.ioctl(self._socket, termios.FIONREAD, count)
        except (OSError, ValueError):  # it is closed
            return 0
        return count[0]

    def abort(self) -> None:
        """Close the socket without connection.close."""
        self._lost = True
        self.connection.ended = True
        self._reading.cancel()
        self._ending.cancel()

    def dismiss(self) -> None:
        """Stop waiting for the client to close its socket after connection.close-ok."""
        if self.connection.discards and self._unsent is None:
            self._ending.cancel()

    # Reading

    async def _read(self) -> None:
        connection = self.connection
        while not connection.ended:
            data = await self._receive()
            if not data:
                if not connection.parting:
                    text = "connection %s: client unexpectedly closed TCP connection"
                    log.warning(text, connection.peer, extra=connection.log_fields())
                return
            if self._round_robin:
                await self._handle_round_robin(data)
            else:
                self._turn(data)
                await _rest_after(self._turn_seconds)
            data = b""  # unhandled bytes are kept by `frames`: do not keep them a second time while this waits
            if self._sockets is not None and self._goes_on():
                await self._sockets.handle_input(self._socket, self._handle_at_once)
                await _rest_after(self._turn_seconds)
            while self.frames.unfinished and not connection.ended:
                await self._hold_back()
                await self._handle_round_robin(b"")
            if self._handshaking and connection.phase is Phase.OPEN:
                self._handshaking = False
                self._reading.deadline = float("inf")
            await self._hold_back()

    async def _handle_round_robin(self, data: bytes) -> None:
        """Handle input in a turn of its own, one busy connection after the other, and not while LMDB catches up."""
        async with self._committer.round_robin:
            await self._committer.lmdb_at_rest()
            self._turn(data)
            await _rest_after(self._turn_seconds)

    def _turn(self, data: bytes) -> None:
        """Handle input and end the turn."""
        began = self._engine.turn_clock()
        self.frames.receive(data)
        self._engine.end_turn()
        seconds = self._turn_seconds = self._engine.turn_clock() - began
        turns = self._engine.turn_seconds
        turns.counts[bisect_left(turns.bounds, seconds)] += 1  # `observe` written out, to save a call for each turn
        turns.total += seconds
        self._round_robin = self.frames.unfinished or seconds > LONG_TURN_SECONDS

    def _handle_at_once(self) -> bool:
        """Handle what there is to read; return True if the next input may be handled so too."""
        data = self._take_in()
        if data is None:
            return True
        if not data:  # the end of the stream, which the reading task will see again
            return False
        self._turn(data)
        return self._goes_on()

    def _goes_on(self) -> bool:
        """Return True if nothing has to be waited for after a turn: the next input may be handled at once."""
        connection = self.connection
        if self._round_robin or self._handshaking or connection.ended or not connection.readable:
            return False
        if connection.publishes or connection.incomplete_bytes:
            if self._committer.crowded(confirmed=connection.confirmed):
                return False
            self._may_publish_on()
        self._acks.acknowledge_unanswered(connection.traffic.send_cnt)
        return True

    async def _receive(self) -> bytes:
        while True:
            self._acks.acknowledge_unanswered(self.connection.traffic.send_cnt)
            await self._settings.readable(self._socket)
            data = self._take_in()
            if data is not None:
                return data

    def _take_in(self) -> bytes | None:
        """Receive what has come: None if nothing has, no bytes at the end of the stream."""
        try:
            if self._busy:
                data = self._socket.recv(min(RECEIVE_BYTES + self.frames.missing, LARGE_RECEIVE_BYTES))
            else:
                size = self._socket.recv_into(_buffer)
                data = bytes(_view[:size])
        except BlockingIOError:
            return None
        except OSError:
            return b""
        self.last_received, self.lay_unread = trio.current_time(), 0
        traffic = self.connection.traffic
        traffic.received(len(data))
        self._acks.received(len(data), traffic.send_cnt)
        self._busy = len(data) >= BUSY_BYTES
        return data

    async def _hold_back(self) -> None:
        """Wait until the client may be read: flow control of slow readers, alarms, and publishers ahead of the disk.

        A client that has only acknowledged since does not wait for the disk: acknowledgements free memory and space.
        """
        connection = self.connection
        self._paused = True
        while not connection.readable and not connection.ended:
            await self._flushed.wait()
        if connection.publishes or connection.incomplete_bytes:
            await self._committer.backpressure(confirmed=connection.confirmed)
            self._may_publish_on()
        self._paused = False

    def _may_publish_on(self) -> None:
        """Note that the client is read again after publishes: it need not wait for the disk."""
        connection = self.connection
        if connection.publishes and connection.confirmed and not connection.incomplete_bytes:
            self._acks.answer_comes()  # the confirm
        connection.publishes = False

    # Writing

    def flush(self) -> None:
        """Send the connection's output, as far as the socket accepts it."""
        self._resume()
        if self._lost:
            self.connection.output.take_pieces()
            return
        if self._unsent is None:
            self._send(self._take())
        if self.connection.phase is Phase.CLOSING and not self._close_deadline_set:
            self._close_deadline_set = True
            self._reading.deadline = min(self._reading.deadline, trio.current_time() + CLOSE_SECONDS)
        if self.connection.ended:
            self._reading.cancel()

    def _resume(self) -> None:
        if self._paused:
            self._flushed.set()
            self._flushed = trio.Event()

    def _send(self, pieces: list[Piece]) -> None:
        if not pieces:
            return
        assert self._unsent is None, "earlier output has to be sent first"
        self.last_sent = trio.current_time()
        try:
            size = self._socket.sendmsg(pieces)
        except BlockingIOError:
            size = 0
        except OSError as error:
            connection, text = self.connection, "connection %s: client unexpectedly closed TCP connection: %s"
            if not connection.parting:
                log.warning(text, connection.peer, error, extra=connection.log_fields())
            self.abort()
            return
        self.connection.traffic.sent(size)
        left = sum(map(len, pieces)) - size
        assert left >= 0, f"the socket accepted {-left} bytes more than it was given"
        self.connection.output.unsent(left)
        if left:
            self._unsent = _last_bytes(pieces, left)
            self._nursery.start_soon(self._send_rest)

    async def _send_rest(self) -> None:
        while self._unsent is not None and not self._lost:
            try:
                await self._settings.writable(self._socket)
                size = self._socket.send(self._unsent)
                self._unsent = self._unsent[size:]
            except BlockingIOError:
                continue
            except (OSError, trio.ClosedResourceError):
                self.abort()
                break
            self.last_sent = trio.current_time()
            self.connection.traffic.sent(size)
            if not self._unsent:
                self._take_more()
        self._sent.set()
        self._sent = trio.Event()
        self._engine.end_turn()

    def _take_more(self) -> None:
        data = b"".join(self._take())
        self._unsent = memoryview(data) if data else None
        self.connection.output.unsent(len(data))
        self._resume()

    def _part(self) -> None:
        """Send the end of the stream before the socket is closed, which only TLS has."""

    async def _all_sent(self) -> None:
        while self._unsent is not None and not self._lost:
            await self._sent.wait()


async def _rest_after(turn_seconds: float) -> None:
    """Sleep for half of a turn's time if that was long."""
    if turn_seconds > LONG_TURN_SECONDS:
        await trio.sleep(turn_seconds / 2)


def _last_bytes(pieces: list[Piece], size: int) -> memoryview:
    """Return the last `size` bytes of the pieces, which are used up."""
    last: list[Piece] = []
    while size > 0:
        piece = pieces.pop()
        last.append(memoryview(piece)[-size:] if size < len(piece) else piece)
        size -= len(piece)
    return memoryview(b"".join(reversed(last)))
