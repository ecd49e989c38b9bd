"""What a client sends, looked at frame by frame where a test has ordered a fault for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.session.input.incoming_frames import IncomingFrames
from broker.session.login import handshake, sasl
from broker.session.login.phase import Phase
from broker.testing.faults.fault_orders import FaultOrder, Faults
from broker.testing.faults.fault_subjects import of_channel, of_connection, of_delivery
from broker.testing.faults.fault_table import METHOD_NAMES, OF_ACKS, OF_LOGINS, OF_METHODS
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
    """Handles frames as they come, up to one that a fault is ordered for. `lose` closes the socket without a word."""

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
            if kind == FRAME_METHOD and (order := self._order(channel, data[at + 7 : after - 1])) is not None:
                self._handle_all(data[start:at])
                self._obey(order, channel, data[at:after])
                start = after
            at = after
        if not connection.ended:
            super().receive(data[start:])

    def _handle_all(self, data: bytes) -> None:
        """What came before a fault has its effect first, however long that takes."""
        super().receive(data)
        while self.unfinished and self._connection.readable and not self._connection.ended:
            super().receive(b"")

    def _order(self, number: int, payload: bytes) -> FaultOrder | None:
        """The fault that happens to a method."""
        connection, key = self._connection, int.from_bytes(payload[:4], "big")
        try:
            if key == methods.ConnectionStartOk.KEY:
                return self._faults.fire(OF_LOGINS, {**of_connection(connection), "user": _login(payload)[1]})
            channel = connection.channels.get(number)
            if channel is not None and key == methods.BasicAck.KEY:
                acked = methods.decode_basic_ack(payload)
                order = self._faults.fire(OF_ACKS, of_delivery(channel, acked.delivery_tag, multiple=acked.multiple))
                if order is not None:
                    return order
        except DecodeError:
            return None  # answered where it is handled
        subject = of_connection(connection) if channel is None else of_channel(channel)
        return self._faults.fire(OF_METHODS, {**subject, "method": METHOD_NAMES.get(key, "")})

    def _obey(self, order: FaultOrder, number: int, frame: bytes) -> None:
        connection, payload = self._connection, frame[7:-1]
        key = int.from_bytes(payload[:4], "big")
        if order.name == "lose-connection-before-ack":
            self._lose()
        elif order.name == "lose-connection-after-ack":
            self._handle_all(frame)
            self._lose()
        elif order.name == "redeliver":
            acked = methods.decode_basic_ack(payload)
            self._handle_all(method_frame(number, methods.BasicNack(acked.delivery_tag, acked.multiple, True)))
        elif order.name == "refuse-logins":
            connection.opened(methods.decode_connection_start_ok(payload).client_properties)
            mechanism, user = _login(payload)
            handshake.refuse_login(connection, user, mechanism, "by order of a test")
        elif order.name == "close-channel" and number in connection.channels:
            close_channel(connection, number, order, key)
        else:
            close_connection(connection, order, key)


def close_channel(connection: Connection, number: int, order: FaultOrder, key: int = 0) -> None:
    """End a channel as an order says."""
    error = ChannelException(ReplyCode(int(order.parameters["code"])), str(order.parameters["text"]))
    connection.channels[number].fail(error, key)


def close_connection(connection: Connection, order: FaultOrder, key: int = 0) -> None:
    """End a connection as an order says."""
    connection.fail(ConnectionException(ReplyCode(int(order.parameters["code"])), str(order.parameters["text"])), key)


def _login(payload: bytes) -> tuple[str, str]:
    """The mechanism of a log-in, and the user that the client says it is; empty where it does not."""
    method = methods.decode_connection_start_ok(payload)
    try:
        return method.mechanism, sasl.read(method.mechanism, method.response).user
    except sasl.Malformed:
        return method.mechanism, ""
