"""The parts of a server that inject faults (`broker/server/net/replaceable_parts.py`)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker.entities.scheduling.timers import Timers
from broker.server.commits.commit_policy import CommitPolicy
from broker.server.commits.commit_thread import CommitThread, Progress
from broker.server.net.replaceable_parts import ReplaceableParts
from broker.server.net.transport import Transport, TransportSettings, incoming_frames
from broker.session.channel.channel_recording import ConfirmRecorder
from broker.session.connection import Connection
from broker.session.input.incoming_frames import IncomingFrames
from broker.session.peer import Peer
from broker.testing.controlled_clock import ControlledClock
from broker.testing.event_history import MessageHistory
from broker.testing.faults.fault_subjects import of_channel
from broker.testing.faults.fault_table import OF_SOCKETS_ACCEPTED
from broker.testing.faults.faulty_confirms import FaultyConfirms
from broker.testing.faults.faulty_frames import FaultyFrames
from broker.testing.faults.faulty_sockets import FaultySocket, writable
from broker.testing.faults.faulty_store import FaultyStore
from broker.testing.faults.requested_faults import Faults, Subject
from broker.testing.gate import Gate
from storage.messages.message_store import MessageStore

if TYPE_CHECKING:
    from broker.session.channel.channel import Channel


class FaultyParts:
    """Makes the parts. `history` has the publish of a confirm, `clock` times delays, and `gate` lets input through."""

    _transports: Iterable[Transport]
    _timers: Timers

    def __init__(self, faults: Faults, history: MessageHistory, clock: ControlledClock, gate: Gate) -> None:
        self._faults = faults
        self._history = history
        self._clock = clock
        self._gate = gate
        self.parts = ReplaceableParts(self._transport, self._take_in, self._new_confirms, self._writer)

    def attach(self, transports: Iterable[Transport], timers: Timers) -> None:
        """Work on the connections of a server, and by the timers of its broker, from now on."""
        self._transports = transports
        self._timers = timers

    def _transport(self, handshake_timeout: float) -> TransportSettings:
        return TransportSettings(handshake_timeout, self._gate.readable, writable, self._incoming)

    def _take_in(self, sock: socket.socket, peer: Peer) -> socket.socket | None:
        if self._faults.fire(OF_SOCKETS_ACCEPTED, {"connection": str(peer)}) is None:
            return FaultySocket(sock, self._faults)
        sock.close()
        return None

    def _incoming(self, connection: Connection, sock: socket.socket) -> IncomingFrames:
        if not isinstance(sock, FaultySocket):
            return incoming_frames(connection, sock)  # of a shovel or a command, to which no faults happen
        sock.connection = connection
        return FaultyFrames(connection, self._faults, lambda: self._lose(connection))

    def _lose(self, connection: Connection) -> None:
        for transport in self._transports:
            if transport.connection is connection:
                transport.abort()

    def _new_confirms(self, channel: Channel, recorder: ConfirmRecorder | None) -> FaultyConfirms:
        def subject(index: int) -> Subject:
            assert channel.recorder is not None, "a broker with faults records history"
            return {**of_channel(channel), **self._history.message(channel.recorder.latest + index)}

        answer = channel.connection.output.answer
        return FaultyConfirms(channel.number, channel.counters, answer, recorder, self._faults, subject, self._later)

    def _later(self, milliseconds: float, callback: Callable[[], None]) -> None:
        self._timers.at(self._clock.now() + round(milliseconds), callback)

    def _writer(
        self, store: MessageStore, progress: Progress, deleted: dict[int, None], policy: CommitPolicy
    ) -> CommitThread:
        return CommitThread(FaultyStore(store, self._faults), progress, deleted, policy)
