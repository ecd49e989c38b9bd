"""Handles a client's input frame by frame while a test has requested a fault of acks, methods or logins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.session.input.incoming_frames import IncomingFrames
from broker.session.login import handshake, sasl
from broker.session.login.phase import Phase
from broker.testing.faults.fault_subjects import of_channel, of_connection, of_delivery
from broker.testing.faults.fault_table import METHOD_NAMES, OF_ACKS, OF_LOGINS, OF_METHODS
from broker.testing.faults.requested_faults import Faults, RequestedFault
from broker.wire import frames, methods
from broker.wire.amqp_errors import ChannelException, ConnectionException, DecodeError
from broker.wire.constants import FRAME_METHOD, ReplyCode
from broker.wire.frames import method_frame

if TYPE_CHECKING:
    from broker.session.connection import Connection

WATCHED = OF_ACKS | OF_METHODS | OF_LOGINS
_FRAME = frames.FRAME_START.unpack_from
_START = frames.FRAME_START.size


class FaultyFrames(IncomingFrames):
    """Handles frames up to one that a fault happens to. `lose` closes the socket without connection.close."""

    __slots__ = ("_faults", "_lose")

    def __init__(self, connection: Connection, faults: Faults, lose: Callable[[], None]) -> None:
        super().__init__(connection)
        self._faults = faults
        self._lose = lose

    def receive(self, data: bytes) -> None:
        connection = self._connection
        if not data or WATCHED.isdisjoint(self._faults.names) or connection.phase is Phase.HEADER:
            super().receive(data)
            return
        data, self._rest = self._rest + data, b""
        start = at = 0
        while len(data) - at >= _START and not connection.ended:
            kind, channel, size = _FRAME(data, at)
            after = at + frames.FRAME_OVERHEAD + size
            if after > len(data):
                break
            if kind == FRAME_METHOD and (fault := self._fault_of(channel, data[at + 7 : after - 1])) is not None:
                self._handle_all(data[start:at])
                self._obey(fault, channel, data[at:after])
                start = after
            at = after
        if not connection.ended:
            super().receive(data[start:])

    def _handle_all(self, data: bytes) -> None:
        """Handle all frames before a fault first, over the turn's limits if need be."""
        super().receive(data)
        while self.unfinished and self._connection.readable and not self._connection.ended:
            super().receive(b"")

    def _fault_of(self, number: int, payload: bytes) -> RequestedFault | None:
        """Return the fault that happens to a method; None if none does."""
        connection, key = self._connection, int.from_bytes(payload[:4], "big")
        try:
            if key == methods.ConnectionStartOk.KEY:
                return self._faults.fire(OF_LOGINS, {**of_connection(connection), "user": _login(payload)[1]})
            channel = connection.channels.get(number)
            if channel is not None and key == methods.BasicAck.KEY:
                acked = methods.decode_basic_ack(payload)
                fault = self._faults.fire(OF_ACKS, of_delivery(channel, acked.delivery_tag, multiple=acked.multiple))
                if fault is not None:
                    return fault
        except DecodeError:
            return None  # the frame is malformed: handling it raises the right error
        subject = of_connection(connection) if channel is None else of_channel(channel)
        return self._faults.fire(OF_METHODS, {**subject, "method": METHOD_NAMES.get(key, "")})

    def _obey(self, fault: RequestedFault, number: int, frame: bytes) -> None:
        connection, payload = self._connection, frame[7:-1]
        key = int.from_bytes(payload[:4], "big")
        if fault.name == "lose-connection-before-ack":
            self._lose()
        elif fault.name == "lose-connection-after-ack":
            self._handle_all(frame)
            self._lose()
        elif fault.name == "redeliver":
            acked = methods.decode_basic_ack(payload)
            self._handle_all(method_frame(number, methods.BasicNack(acked.delivery_tag, acked.multiple, True)))
        elif fault.name == "refuse-logins":
            connection.opened(methods.decode_connection_start_ok(payload).client_properties)
            mechanism, user = _login(payload)
            handshake.refuse_login(connection, user, mechanism, "by order of a test")
        elif fault.name == "close-channel" and number in connection.channels:
            close_channel(connection, number, fault, key)
        else:
            close_connection(connection, fault, key)


def close_channel(connection: Connection, number: int, fault: RequestedFault, key: int = 0) -> None:
    """Close a channel with the code and text of a fault."""
    error = ChannelException(ReplyCode(int(fault.parameters["code"])), str(fault.parameters["text"]))
    connection.channels[number].fail(error, key)


def close_connection(connection: Connection, fault: RequestedFault, key: int = 0) -> None:
    """Close a connection with the code and text of a fault."""
    connection.fail(ConnectionException(ReplyCode(int(fault.parameters["code"])), str(fault.parameters["text"])), key)


def _login(payload: bytes) -> tuple[str, str]:
    """Return the mechanism and the user of a login; the user is empty if the response names none."""
    method = methods.decode_connection_start_ok(payload)
    try:
        return method.mechanism, sasl.read(method.mechanism, method.response).user
    except sasl.Malformed:
        return method.mechanism, ""
