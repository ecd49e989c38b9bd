"""One connection: bytes in, bytes out.

`receive` takes whatever has arrived, cuts it into frames and obeys them; what there is to say gathers in
`output` until somebody takes it. Nothing here waits. An error is answered in one place, `guard`: a
ChannelException ends its channel, a ConnectionException the connection.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from broker.entities.turn import Outbound
from broker.session import dispatch, handshake, publishing
from broker.session.channel import HELD_OVERHEAD_BYTES, Action, Channel
from broker.session.deliveries import acknowledge
from broker.session.settlement import settle
from broker.wire import frames, methods
from broker.wire.assembler import Command
from broker.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, ReplyCode
from broker.wire.errors import ChannelException, ConnectionException, DecodeError, reply_text
from broker.wire.method import Method
from broker.wire.tables import Table

if TYPE_CHECKING:
    from broker.entities.vhost import VHost
    from broker.session.access import Access
    from broker.session.registry import Registry

log = logging.getLogger("leveret.connection")

FRAME_MAX_BEFORE_TUNE = 131072
SILENT_CLOSE_SECONDS = 3.0
_PUBLISH = b"\x00\x3c\x00\x28"
_ACK = b"\x00\x3c\x00\x50"
_ACK_FRAME_BYTES = 13
_ACK_ARGUMENTS = struct.Struct(">QB").unpack_from
_SIZE = struct.Struct(">Q").unpack_from
_KEY = struct.Struct(">I").unpack_from
_FRAME = frames.FRAME_START.unpack_from


class Peer(NamedTuple):
    """Both ends of a connection, as host and port."""

    host: str
    port: int
    local_host: str
    local_port: int
    loopback: bool

    def __str__(self) -> str:
        return f"{self.host}:{self.port} -> {self.local_host}:{self.local_port}"


class Connection(Outbound):
    """State of one client's connection.

    `ended` says that the socket is to be closed, after `linger` seconds, once the output is sent.
    `readable` is False while the client has to be kept waiting.
    """

    vhost: VHost
    access: Access

    def __init__(self, registry: Registry, peer: Peer, on_output: Callable[[], None]) -> None:
        self.registry = registry
        self.broker = registry.broker
        self.settings = registry.settings
        self.peer = peer
        self.phase = handshake.Phase.HEADER
        self.user = ""
        self.vhost_name = ""
        self.client_properties: Table = {}
        self.frame_max = FRAME_MAX_BEFORE_TUNE
        self.channel_max = 0
        self.heartbeat = 0
        self.channels: dict[int, Channel] = {}
        self.obeying = 0
        self.copies = 1
        self.output: list[bytes] = []
        self.output_bytes = 0
        self.ended = False
        self.linger = 0.0
        self.blocked = False
        self.publishes = False
        self.unfinished = False
        self._on_output = on_output
        self._stuck_bytes = 0
        self._dirty = False
        self._held_bytes = 0
        self._rest = b""
        self._answering: dict[Channel, None] = {}
        self._capabilities: frozenset[str] = frozenset()
        registry.connections[self] = None

    # In

    def receive(self, data: bytes) -> None:
        """Take what has arrived. With `unfinished` set there is more to do: come back with b"" after others' turns."""
        self.unfinished = False
        if self.ended:
            return
        if self._rest:
            data = self._rest + data
            self._rest = b""
        try:
            if self.phase is handshake.Phase.HEADER:
                data = handshake.read_header(self, data)
            self._rest = data[self._obey_frames(data) :]
        except ConnectionException as error:
            self.fail(error)

    def _obey_frames(self, data: bytes) -> int:
        """Obey whole frames until the turn's budget is spent; how far that was.

        Long and flat because each frame passes here: cutting a publish or an ack out at once, without frame,
        method and command objects, is worth a third of the broker's time on small messages.
        """
        at, end, budget = 0, len(data), self.settings.turn_copies_max
        while end - at >= 8 and not self.ended:
            kind, number, size = _FRAME(data, at)
            if size > self.frame_max - 8:
                raise frames.frame_too_large(kind, size, self.frame_max)
            stop = at + 7 + size
            if stop >= end:
                break
            if data[stop] != 0xCE:
                raise frames.bad_frame_end(kind, data[at + 7 : stop], data[stop])
            if kind == FRAME_METHOD:
                channel = self.channels.get(number)
                if channel is not None and channel.free and channel.assembler.idle:
                    name = data[at + 7 : at + 11]
                    if name == _PUBLISH:
                        after = self._publish_whole(channel, data, at + 11, stop, end)
                        if after:
                            at = after
                            budget -= self.copies
                            if budget <= 0:
                                self.unfinished = True
                                break
                            continue
                    elif name == _ACK and size == _ACK_FRAME_BYTES:
                        tag, multiple = _ACK_ARGUMENTS(data, at + 11)
                        self._acknowledge(channel, tag, bool(multiple & 1))
                        at = stop + 1
                        continue
            self._obey_frame(kind, number, data[at + 7 : stop])
            at = stop + 1
        return at

    def _publish_whole(self, channel: Channel, data: bytes, at: int, stop: int, end: int) -> int:
        """Publish if header and body follow in one frame each; where that ends, or 0 if they do not."""
        at_header = stop + 1
        if end - at_header < 30:
            return 0
        kind, number, size = _FRAME(data, at_header)
        header_stop = at_header + 7 + size
        if kind != FRAME_HEADER or number != channel.number or size < 14 or header_stop + 8 >= end:
            return 0
        (body_size,) = _SIZE(data, at_header + 11)
        at_body = header_stop + 1
        kind, number, size = _FRAME(data, at_body)
        body_stop = at_body + 7 + body_size
        if kind != FRAME_BODY or number != channel.number or size != body_size or body_stop >= end:
            return 0
        if data[header_stop] != 0xCE or data[body_stop] != 0xCE or data[at_header + 7 : at_header + 9] != b"\x00\x3c":
            return 0
        if not body_size or max(size, header_stop - at_header - 7) > self.frame_max - 8:
            return 0
        self.obeying = methods.BasicPublish.KEY
        self.publishes = True
        try:
            self.copies = publishing.publish(
                channel, data[at:stop], data[at_header + 7 : header_stop], data[at_body + 7 : body_stop]
            )
        except ChannelException as error:
            channel.fail(error, methods.BasicPublish.KEY)
        except ConnectionException as error:
            self.fail(error, methods.BasicPublish.KEY)
        return int(body_stop) + 1

    def _acknowledge(self, channel: Channel, tag: int, multiple: bool) -> None:
        try:
            settle(channel, tag, acknowledge, multiple=multiple)
        except ChannelException as error:
            channel.fail(error, methods.BasicAck.KEY)

    def _obey_frame(self, kind: int, number: int, payload: bytes) -> None:
        if kind not in frames.FRAME_TYPES:
            raise frames.unknown_frame(kind, payload)
        if kind == FRAME_HEARTBEAT:
            if number:
                raise frames.unexpected_frame(kind, payload)
        elif number == 0:
            self._obey_on_connection(kind, payload)
        elif self.phase is handshake.Phase.OPEN:
            self._obey_on_channel(kind, number, payload)
        elif self.phase is not handshake.Phase.CLOSING:
            handshake.refuse(self, f"frame on channel {number} before the connection was open")

    def _obey_on_connection(self, kind: int, payload: bytes) -> None:
        if kind != FRAME_METHOD:
            text = "expected method frame, got non method frame instead"
            raise ConnectionException(ReplyCode.UNEXPECTED_FRAME, text)
        method = self._decode(payload)
        if method is None:
            return
        self.obeying = method.KEY
        try:
            handshake.obey(self, method)
        except ChannelException as error:  # on channel 0 every error is the connection's
            raise ConnectionException(error.code, error.text, method.CLASS_ID, method.METHOD_ID) from error

    def _obey_on_channel(self, kind: int, number: int, payload: bytes) -> None:
        channel = self.channels.get(number)
        if channel is None or channel.closing:
            method = self._decode(payload) if kind == FRAME_METHOD else None
            if kind != FRAME_METHOD or method is not None:
                dispatch.obey_unopened(self, number, channel, method)
            return
        if kind == FRAME_METHOD:
            method = self._decode(payload)
            command = None if method is None else channel.assembler.method(method)
        elif kind == FRAME_HEADER:
            command = channel.assembler.header(payload)
        else:
            command = channel.assembler.body(payload)
        if command is not None:
            self._obey_command(channel, command)

    def _obey_command(self, channel: Channel, command: Command) -> None:
        size = len(command.body) + HELD_OVERHEAD_BYTES
        action = partial(dispatch.obey, channel, command)
        may_pass = type(command.method) in dispatch.MAKES_ROOM and channel.transaction is None
        key = command.method.KEY
        self.guard(channel, key, lambda: channel.obey(partial(self._obey_as, key, action), size, may_pass=may_pass))

    def _obey_as(self, key: int, action: Action) -> None:
        self.obeying = key
        action()

    def _decode(self, payload: bytes) -> Method | None:
        try:
            return methods.DECODERS[_KEY(payload)[0]](payload)
        except (KeyError, struct.error):
            handshake.refuse(self, f"unknown method {payload[:4].hex()}")
            return None
        except DecodeError:
            raise frames.cannot_decode(payload) from None

    def guard(self, channel: Channel, key: int, action: Action) -> None:
        """Do something for a channel; an error is answered here and nowhere else."""
        if key:
            self.obeying = key
        try:
            action()
        except ChannelException as error:
            channel.fail(error, self.obeying)
        except ConnectionException as error:
            self.fail(error, self.obeying)
        except Exception:
            log.exception("error on connection %s, channel %d", self.peer, channel.number)
            self.fail(ConnectionException(ReplyCode.INTERNAL_ERROR, ""), self.obeying)

    # Out

    def send(self, data: bytes) -> None:
        """Put bytes behind what is waiting to be sent."""
        self.output.append(data)
        self.output_bytes += len(data)
        if not self._dirty:
            self._touch()

    def send_on_connection(self, method: Method) -> None:
        """Send a method on channel 0."""
        self.send(frames.method_frame(0, method))

    def answer(self, channel: Channel) -> None:
        """A channel has confirms to send when the output is taken."""
        self._answering[channel] = None
        self._touch()

    def _touch(self) -> None:
        if not self._dirty:
            self._dirty = True
            self.broker.turn.outbound.append(self)

    def flush(self) -> None:
        """End of the turn: the output can be taken."""
        self._dirty = False
        self._on_output()

    def take_output(self) -> bytes:
        """Everything there is to send, confirms last."""
        for channel in self._answering:
            self.output.extend(channel.answer_publishes())
        self._answering.clear()
        data = b"".join(self.output)
        self.output.clear()
        self.output_bytes = 0
        return data

    def stuck(self, unsent_bytes: int) -> None:
        """The client has not yet taken this much of the output; consumers wait until it has."""
        was_full = self.room() <= 0
        self._stuck_bytes = unsent_bytes
        if was_full and self.room() > 0:
            for channel in self.channels.values():
                channel.replenish()

    def room(self) -> int:
        """How much more output is welcome."""
        return self.settings.output_bytes_max - self.output_bytes - self._stuck_bytes

    # Holding back

    @property
    def readable(self) -> bool:
        """The client may be read from: it is not held, or not so much is."""
        return self._held_bytes <= self.settings.held_bytes_max

    @property
    def holds_publishes(self) -> bool:
        """A resource is short, and this connection publishes."""
        return self.blocked and self.broker.alarms.raised

    def hold(self, size: int) -> None:
        """Count what is held for this connection, in bytes."""
        self._held_bytes += size
        if size < 0:
            self._touch()  # whoever reads for us may go on

    def block(self) -> None:
        """The client publishes while a resource is short: it is told, if it understands."""
        if not self.blocked:
            self.blocked = True
            if self.knows("connection.blocked"):
                self.send_on_connection(methods.ConnectionBlocked(self.broker.alarms.reason))

    def unblock(self) -> None:
        """Resources are plentiful again: what was held goes on."""
        if not self.blocked:
            return
        self.blocked = False
        if self.knows("connection.blocked"):
            self.send_on_connection(methods.ConnectionUnblocked())
        for channel in list(self.channels.values()):
            channel.go_on()

    # State

    def opened(self, client_properties: Table) -> None:
        """Remember what the client said of itself."""
        self.client_properties = client_properties
        capabilities = client_properties.get("capabilities")
        if capabilities is not None and capabilities.kind == "F":
            self._capabilities = frozenset(name for name, field in capabilities.value.items() if field.value is True)

    def knows(self, capability: str) -> bool:
        """The client understands one of RabbitMQ's extensions."""
        return capability in self._capabilities

    def fail(self, error: ConnectionException, failing: int = 0) -> None:
        """End the connection with an error; `failing` is the key of the method at fault where the error names none."""
        if self.phase is handshake.Phase.CLOSING or self.ended:
            return
        log.warning("closing connection %s: %s", self.peer, error)
        if self.phase not in handshake.CAN_SAY_CLOSE:
            handshake.refuse(self, str(error))
            return
        key = (error.class_id << 16 | error.method_id) or failing
        self._say_close(error.code, reply_text(error.code, error.text), key)

    def force_close(self, text: str) -> None:
        """Send the client away: 320 CONNECTION_FORCED."""
        if self.phase is handshake.Phase.OPEN:
            self._say_close(ReplyCode.CONNECTION_FORCED, reply_text(ReplyCode.CONNECTION_FORCED, text), 0)
        elif self.phase is not handshake.Phase.CLOSING:
            self.end()

    def _say_close(self, code: ReplyCode, text: str, key: int) -> None:
        self.release()
        self.phase = handshake.Phase.CLOSING
        self.send_on_connection(methods.ConnectionClose(code, text, key >> 16, key & 0xFFFF))

    def end(self, linger: float = 0.0) -> None:
        """Have the socket closed once the output is sent, and `linger` seconds have passed."""
        self.ended = True
        self.linger = linger
        self._touch()

    def release(self) -> None:
        """Give back everything the client held: channels, consumers, exclusive queues."""
        self.registry.connections.pop(self, None)
        for channel in list(self.channels.values()):
            if not channel.closing:
                channel.release()
            channel.ended = True
        self.channels.clear()
        if self.vhost_name:
            self.vhost.release(self)
