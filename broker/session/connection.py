"""The state of one client's connection: its user, its phase, its channels, and flow control.

Input comes from `broker.session.input.incoming_frames`; output is buffered in `output`.
Nothing here waits. Errors are answered in one place, `guard`: a ChannelException closes its channel, a
ConnectionException the connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from broker.entities.scheduling.future import Future
from broker.entities.statistics.totals import Traffic
from broker.session import connection_event_messages
from broker.session.channel.channel import Action, Channel, ChannelConnection
from broker.session.login.phase import CAN_SAY_CLOSE, Phase
from broker.session.output.output_buffer import Output
from broker.session.peer import Peer, client_name
from broker.wire import methods
from broker.wire.amqp_errors import ChannelException, ConnectionException, reply_text
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import Table
from broker.wire.frames import method_frame
from broker.wire.method import Method

if TYPE_CHECKING:
    from broker.entities.vhosts.vhost import VHost
    from broker.session.registry import Registry

log = logging.getLogger("leveret.connection")

UNREAD_OUTPUTS: Final = 4
"""A connection is not read while its pending output exceeds this many times `limits.output_bytes_max`."""

SILENT_SECONDS = 3.0
"""Time before the socket of a client that is refused before connection.open is closed, as in RabbitMQ."""

DISCARD_SECONDS = 30.0
"""Time for a client to close its socket after close-ok, as in RabbitMQ; at most its heartbeat, if it has one."""


class Connection(ChannelConnection):
    """State of one client's connection.

    `ended`: the socket is to be closed once the output is sent and `linger` seconds have passed. With `discards` the
    client closes it, because it may have sent more before it saw the close: input is discarded, for `linger` seconds at
    most. `readable` is False while the socket must not be read.
    """

    def __init__(self, registry: Registry, peer: Peer, on_flush: Callable[[], None], *, direct: bool = False) -> None:
        self.registry = registry
        self.direct = direct
        """It has no socket: the broker itself made it, for the management API."""
        self.broker = registry.broker
        self.settings = registry.settings
        self.peer = peer
        self.number = next(registry.connection_numbers)
        self.phase = Phase.HEADER
        self.user = ""
        self.vhost_name = ""
        self.client_properties: Table = {}
        self.client_name = "the management API" if direct else ""
        self.connected_at = registry.broker.clock.now()
        """Time at which its socket was accepted, in milliseconds since the epoch."""
        self.traffic = Traffic()
        """Bytes and frames, counted by its transport."""
        self.frame_max = registry.settings.initial_frame_max
        self.channel_max = 0
        self.heartbeat = 0
        self.mechanism = ""
        """The SASL mechanism of the login."""
        self.channels = {}
        self.reply_channels = registry.reply_channels
        self.new_confirms = registry.new_confirms
        self.handling = 0
        """The key of the method being handled."""
        self.held_methods = registry.held_methods
        self.busy_channels = 0
        self.output = Output(registry.broker.turn, registry.settings.output_bytes_max, on_flush, self._replenish)
        self.ended = False
        self.linger = 0.0
        self.discards = False
        self.blocked = False
        self.publishes = False
        """It has published since it last had to wait for the disk."""
        self.confirmed = False
        """Its latest publish is to be answered, by a confirm or by tx.commit-ok."""
        self.incomplete_bytes = 0
        """Bytes of incomplete messages and open transactions; `registry.incomplete_bytes` is the sum of all."""
        self.held_bytes = 0
        """Bytes of the methods that its channels hold, behind an alarm or a gate."""
        self._released: Future[None] | None = None
        self._capabilities: frozenset[str] = frozenset()
        registry.add(self)

    def log_fields(self, **more: object) -> dict[str, object]:
        """Return the structured fields of a log line about this connection, its `extra`."""
        return {"connection": str(self.peer), "user": self.user, "vhost": self.vhost_name, **more}

    # Errors

    def guard(self, channel: Channel, key: int, action: Action) -> None:
        """Run an action for a channel, and answer its error with close; no other place does."""
        if key:
            self.handling = key
        try:
            action()
        except ChannelException as error:
            channel.fail(error, self.handling)
        except ConnectionException as fatal:
            self.fail(fatal, self.handling)
        except Exception:
            fields = self.log_fields(channel=channel.number)
            log.exception("error on connection %s, channel %d", self.peer, channel.number, extra=fields)
            self.fail(ConnectionException(ReplyCode.INTERNAL_ERROR, ""), self.handling)

    def send(self, method: Method) -> None:
        """Send a method on channel 0."""
        self.output.send(method_frame(0, method))

    def _replenish(self) -> None:
        for channel in self.channels.values():
            channel.replenish()
            channel.go_on(later=True)  # the output is being sent: answers made now would miss it

    # Holding back

    @property
    def readable(self) -> bool:
        """True if the socket may be read: no channel is busy, held bytes are below the limit, the client reads output.

        Confirms do not count as output: they are encoded when the socket takes them. Returns and answers do.
        """
        held_max = self.settings.held_bytes_max
        return not (
            self.write_blocked
            or self.busy_channels
            or self.held_bytes > held_max
            or (self.blocked and self.incomplete_bytes > held_max)
        )

    @property
    def write_blocked(self) -> bool:
        """True if the client does not read its output."""
        return self.output.pending > UNREAD_OUTPUTS * self.settings.output_bytes_max

    @property
    def waits_to_be_read(self) -> bool:
        """True if the client's input waits until it reads its output, not for an alarm."""
        return self.write_blocked or (self.output.pending >= self.settings.output_bytes_max and not self.blocked)

    def hold(self, size: int) -> None:
        """Add to the held bytes."""
        self.held_bytes += size
        if size < 0:
            self.output.touch()  # the transport may read on

    def count_incomplete(self, size: int) -> None:
        """Add to the bytes of incomplete messages. Beyond the limit the connection with the most is closed."""
        self.incomplete_bytes += size
        self.registry.incomplete_bytes += size
        if size <= 0:
            return
        if self.incomplete_bytes > self.settings.held_bytes_max and self.broker.alarms.raised:
            self.block()
        limit = self.settings.incomplete_bytes_max
        if limit and self.registry.incomplete_bytes > limit:
            self.registry.shed_load()

    def block(self) -> None:
        """Note that the client publishes while an alarm is raised; send connection.blocked if it has the capability."""
        if not self.blocked:
            self.blocked = True
            if self.knows("connection.blocked"):
                self.send(methods.ConnectionBlocked(self.broker.alarms.reason))

    def unblock(self) -> None:
        """Begin to handle the held methods: the alarm has ended."""
        if not self.blocked:
            return
        self.blocked = False
        if self.knows("connection.blocked"):
            self.send(methods.ConnectionUnblocked())
        self.output.touch()  # the transport may read on
        for channel in list(self.channels.values()):
            channel.go_on()

    # State

    @property
    def parting(self) -> bool:
        """True if one side has begun to close: the reason is in the log, so the end of the socket is not logged."""
        return self.ended or self.phase is Phase.CLOSING

    def opened(self, client_properties: Table) -> None:
        """Keep the client's properties of connection.start-ok."""
        self.client_properties = client_properties
        self.client_name = client_name(client_properties, self.peer)
        capabilities = client_properties.get("capabilities")
        if capabilities is not None and capabilities.kind == "F":
            self._capabilities = frozenset(name for name, field in capabilities.value.items() if field.value is True)

    def knows(self, capability: str) -> bool:
        """Return whether the client announced a capability (an extension of RabbitMQ)."""
        return capability in self._capabilities

    def fail(self, error: ConnectionException, failing: int = 0) -> None:
        """Close the connection with an error; `failing`: key of the method at fault if the error names none."""
        if self.phase is Phase.CLOSING or self.ended:
            return
        log.warning("closing connection %s: %s", self.peer, error, extra=self.log_fields(code=int(error.code)))
        if self.broker.watch is not None:
            self.broker.watch.closed(self.client_name, int(error.code), error.text)
        if self.phase not in CAN_SAY_CLOSE:
            self.refuse(str(error))
            return
        if error.code is ReplyCode.INTERNAL_ERROR and not error.told:  # the text is for the log alone, as in RabbitMQ
            self._say_close(error.code, reply_text(error.code, ""), 0)
            return
        key = (error.class_id << 16 | error.method_id) or failing
        self._say_close(error.code, reply_text(error.code, error.text), key)

    def refuse(self, reason: str, delay: float = 0.0) -> None:
        """Close the socket without connection.close; after SILENT_SECONDS and `delay` if the client is logging in.

        The reason is for the log.
        """
        log.warning("closing connection %s: %s", self.peer, reason, extra=self.log_fields())
        waiting = self.phase in (Phase.START, Phase.TUNE)
        self.release()
        self.end(SILENT_SECONDS + delay if waiting else 0.0)

    def force_close(self, text: str) -> None:
        """Close the connection with 320 CONNECTION_FORCED."""
        if self.phase is Phase.OPEN:
            fields = self.log_fields(code=int(ReplyCode.CONNECTION_FORCED))
            log.info("closing connection %s: CONNECTION_FORCED - %s", self.peer, text, extra=fields)
            self._say_close(ReplyCode.CONNECTION_FORCED, reply_text(ReplyCode.CONNECTION_FORCED, text), 0)
        elif self.phase is not Phase.CLOSING:
            self.end()

    def _say_close(self, code: ReplyCode, text: str, key: int) -> None:
        self.release()
        self.phase = Phase.CLOSING
        self.send(methods.ConnectionClose(code, text, key >> 16, key & 0xFFFF))

    def end(self, linger: float = 0.0) -> None:
        """Have the socket closed once the output is sent and `linger` seconds have passed."""
        self.ended = True
        self.linger = linger
        self.output.touch()

    def say_goodbye(self) -> None:
        """Answer connection.close, and leave it to the client to close the socket.

        If we closed a socket with unread input, the system would reset it, and the client could lose close-ok.
        """
        if not self.ended:
            self.send(methods.ConnectionCloseOk())
            self.discards = True
            self.end(min(self.heartbeat or DISCARD_SECONDS, DISCARD_SECONDS))

    def release(self) -> Future[None]:
        """End channels, consumers and exclusive queues, and requeue deliveries, as background work.

        The future is resolved when all is done. Nothing is sent to the client meanwhile.
        """
        if self._released is None:
            self.registry.connections.pop(self, None)
            if self.vhost_name:
                self.registry.leave_routes(self.routes)
                self.traffic = self.vhost.statistics.traffic_sum.leave(self.traffic)
                self.broker.statistics.churn.connection_closed += 1
            self.output.refuse_deliveries()
            channels, self.channels = list(self.channels.values()), {}
            for channel in channels:
                channel.stop()
            self._released = self.broker.background_work.begin(self._give_back(channels))
        return self._released

    def check(self) -> None:
        """Raise AssertionError unless channels are sound and byte counts right; to be called between two turns."""
        channels = self.channels.values()
        for channel in channels:
            channel.check()
        held = sum(each.size for channel in channels for each in channel.held)
        assert self.held_bytes == held, f"{self.held_bytes} held bytes are counted, there are {held}"
        incomplete = sum(
            channel.assembler.bytes + (tx.bytes if (tx := channel.transaction) else 0) for channel in channels
        )
        assert self._released is not None or self.incomplete_bytes == incomplete, (
            f"{self.incomplete_bytes} bytes of incomplete messages are counted, there are {incomplete}"
        )

    def _give_back(self, channels: list[Channel]) -> Iterator[int | None]:
        while channels:
            yield from channels.pop().release()
            yield None
        if self.vhost_name:
            yield from self.vhost.release(self)
            connection_event_messages.connection_closed(self)


def enter(connection: Connection, vhost: VHost, *, trusted: bool = False) -> None:
    """Open a virtual host for a connection whose user has logged in. One that is `trusted` may do anything in it."""
    connection.vhost, connection.vhost_name = vhost, vhost.name
    connection.routes = connection.registry.share_routes(connection.user, vhost.name, trusted=trusted)
    connection.phase = Phase.OPEN
    vhost.statistics.traffic_sum.join(connection.traffic)
    connection.broker.statistics.churn.connection_created += 1
