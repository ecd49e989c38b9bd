"""A client's connection without I/O: bytes in, commands out; output is collected.

Channel 0, the handshake and the close of the connection, is handled here. Commands on other channels, channel.close
included, are returned as they arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from broker.client.uris import AmqpEndpoint
from broker.wire import methods
from broker.wire.amqp_errors import AmqpError, DecodeError
from broker.wire.assembler import Assembler, Command
from broker.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from broker.wire.field_tables import encode_table, from_python
from broker.wire.frames import FRAME_OVERHEAD, FRAME_START, HEARTBEAT, PROTOCOL_HEADER, content_frames, method_frame
from broker.wire.method import Method

FRAME_MAX = 131_072
CAPABILITIES = (
    "publisher_confirms",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "authentication_failure_close",
)


def announced(properties: Mapping[str, object]) -> dict[str, object]:
    """Return a client's properties with the capabilities that it has."""
    return {**properties, "capabilities": dict.fromkeys(CAPABILITIES, True)}


class ClientError(Exception):
    """The connection cannot be made, or is lost; the message has the reason."""


class ClosedByBroker(ClientError):
    """The broker has closed the connection, or a channel, with a reply code and a text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text


class Arrival(NamedTuple):
    """A command that has arrived on a channel."""

    channel: int
    command: Command


class ClientConnection:
    """The state of a connection. With `entered`, a frame size, it is open from the start: there is no handshake.

    `opened`: the handshake is done. `blocked`: the reason of connection.blocked; empty while publishers are free.
    """

    def __init__(self, endpoint: AmqpEndpoint, properties: Mapping[str, object], *, entered: int = 0) -> None:
        self._endpoint = endpoint
        self._properties = properties
        self.opened = bool(entered)
        self.ended = False
        self.blocked = ""
        self.heartbeat = 0 if entered else endpoint.heartbeat
        """Seconds, as negotiated once it is open; 0: none."""
        self.frame_max = entered or FRAME_MAX
        self._assemblers: dict[int, Assembler] = {}
        self._rest = b""
        self._output: list[bytes] = [] if entered else [PROTOCOL_HEADER]

    # Sending

    def send(self, channel: int, *sent: Method) -> None:
        """Collect methods without content."""
        self._output += (method_frame(channel, method) for method in sent)

    def publish(self, channel: int, publish: bytes, header: bytes, body: bytes) -> None:
        """Collect a message: the frame of its basic.publish, the payload of its header frame, and its body."""
        self._output += (publish, content_frames(channel, header, body, self.frame_max))

    def beat(self) -> None:
        """Collect a heartbeat."""
        self._output.append(HEARTBEAT)

    def take(self) -> bytes:
        """Remove and return the collected output."""
        data = b"".join(self._output)
        self._output.clear()
        return data

    # Receiving

    def receive(self, data: bytes) -> list[Arrival]:
        """Handle received bytes and return the commands. Raises ClosedByBroker, and ClientError for malformed input."""
        try:
            return self._cut(self._rest + data)
        except (AmqpError, DecodeError, KeyError) as error:
            raise ClientError(f"the broker sent malformed AMQP 0-9-1: {error}") from error

    def _cut(self, data: bytes) -> list[Arrival]:
        arrived, at = [], 0
        while len(data) - at >= FRAME_OVERHEAD:
            kind, channel, size = FRAME_START.unpack_from(data, at)
            end = at + FRAME_OVERHEAD + size
            if end > len(data):
                break
            command = self._assembled(kind, channel, data[at + FRAME_START.size : end - 1])
            if command is not None and not self._handled(channel, command.method):
                arrived.append(Arrival(channel, command))
            at = end
        self._rest = data[at:]
        if not self.opened and self._rest.startswith(b"AMQP"):
            raise ClientError("the broker does not speak AMQP 0-9-1")
        return arrived

    def _assembled(self, kind: int, channel: int, payload: bytes) -> Command | None:
        assembler = self._assemblers.get(channel)
        if assembler is None:
            assembler = self._assemblers[channel] = Assembler()
        if kind == FRAME_METHOD:
            return assembler.method(methods.DECODERS[int.from_bytes(payload[:4])](payload), payload[4:])
        if kind == FRAME_HEADER:
            return assembler.header(payload)
        return assembler.body(payload) if kind == FRAME_BODY else None

    def _handled(self, channel: int, method: Method) -> bool:
        """Handle a method on channel 0; False for other channels. Raises ClosedByBroker for connection.close."""
        if channel:
            return False
        match method:
            case methods.ConnectionStart():
                self._log_in(method)
            case methods.ConnectionTune():
                self._tune(method)
            case methods.ConnectionOpenOk():
                self.opened = True
            case methods.ConnectionBlocked():
                self.blocked = method.reason
            case methods.ConnectionUnblocked():
                self.blocked = ""
            case methods.ConnectionCloseOk():
                self.ended = True
            case methods.ConnectionClose():
                self.ended = True
                self.send(0, methods.ConnectionCloseOk())
                raise ClosedByBroker(method.reply_code, method.reply_text)
        return True

    def _log_in(self, start: methods.ConnectionStart) -> None:
        offered = start.mechanisms.decode("ascii", "replace").split()
        mechanism = next((name for name in self._endpoint.mechanisms if name in offered), None)
        if mechanism is None or mechanism not in _RESPONSES:
            wanted = ", ".join(self._endpoint.mechanisms)
            raise ClientError(f"the broker offers the login mechanisms {', '.join(offered)}, expected {wanted}")
        user, password = self._endpoint.user or "guest", self._endpoint.password or "guest"
        response = _RESPONSES[mechanism](*(each.encode("utf-8", "surrogateescape") for each in (user, password)))
        self.send(0, methods.ConnectionStartOk(from_python(self._properties), mechanism, response, "en_US"))

    def _tune(self, tune: methods.ConnectionTune) -> None:
        limits = (tune.frame_max, self._endpoint.frame_max, FRAME_MAX)
        self.frame_max = min(limit for limit in limits if limit)
        wanted = self._endpoint.heartbeat
        self.heartbeat = min(tune.heartbeat, wanted) if tune.heartbeat else wanted
        self.send(0, methods.ConnectionTuneOk(tune.channel_max, self.frame_max, self.heartbeat))
        self.send(0, methods.ConnectionOpen(self._endpoint.vhost))


_RESPONSES: dict[str, Callable[[bytes, bytes], bytes]] = {
    "PLAIN": lambda user, password: b"\0" + user + b"\0" + password,
    "AMQPLAIN": lambda user, password: encode_table(from_python({"LOGIN": user, "PASSWORD": password}))[4:],
    "EXTERNAL": lambda user, password: b"",
}
"""Functions that make a mechanism's response from user and password."""
