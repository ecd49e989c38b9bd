"""The state of one client's connection: its user, how far it has come, its channels, and when it has to wait.

What arrives comes by way of `broker.session.input.incoming_frames`; what there is to say is buffered in `output`.
Nothing here waits. An error is answered in one place, `guard`: a ChannelException ends its channel, a
ConnectionException the connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from broker.entities.scheduling.future import Future
from broker.entities.statistics.totals import Traffic
from broker.session import connection_events
from broker.session.channel.channel import Action, Channel, ChannelConnection
from broker.session.login.phase import CAN_SAY_CLOSE, Phase
from broker.session.output.output_buffer import Output
from broker.session.peer import Peer
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
"""At how many times the output limit a connection is no longer read."""

SILENT_SECONDS = 3.0
"""For how long a client that is refused before connection.open is left without an answer."""

DISCARD_SECONDS = 30.0
"""How long a client has, as in RabbitMQ, to end its side after close-ok; no longer than its heartbeat if it has one."""


class Connection(ChannelConnection):
    """State of one client's connection.

    `ended` says that the socket is to be closed, after `linger` seconds, once the output is sent. With `discards`
    that is the client's to do, which may have written more before it heard of the end: what arrives is thrown away, and
    `linger` is how long that may take. `readable` is False while the client has to be kept waiting.
    """

    def __init__(self, registry: Registry, peer: Peer, on_flush: Callable[[], None], *, direct: bool = False) -> None:
        self.registry = registry
        self.direct = direct
        """It has no socket: the broker itself makes it, for a request that came another way."""
        self.broker = registry.broker
        self.settings = registry.settings
        self.peer = peer
        self.number = next(registry.connection_numbers)
        self.phase = Phase.HEADER
        self.user = ""
        self.vhost_name = ""
        self.client_properties: Table = {}
        self.connected_at = registry.broker.clock.now()
        """When its socket was accepted, in milliseconds since the epoch."""
        self.traffic = Traffic()
        """Kept by its transport."""
        self.frame_max = registry.settings.initial_frame_max
        self.channel_max = 0
        self.heartbeat = 0
        self.mechanism = ""
        """The SASL mechanism by which the user has logged in."""
        self.channels = {}
        self.reply_channels = registry.reply_channels
        self.new_confirms = registry.new_confirms
        self.handling = 0
        """The key of the method that is being handled."""
        self.going_on = registry.going_on
        self.channels_going_on = 0
        self.output = Output(registry.broker.turn, registry.settings.output_bytes_max, on_flush, self._replenish)
        self.ended = False
        self.linger = 0.0
        self.discards = False
        self.blocked = False
        self.publishes = False
        """Whether it has published since it last had to wait for the disk."""
        self.confirmed = False
        """Whether its latest publish is to be answered: with a confirm, or with the end of its transaction."""
        self.incomplete_bytes = 0
        """Bytes of messages that are not whole, or not committed: registry.incomplete_bytes is the sum of all."""
        self.held_bytes = 0
        """What it has sent that waits for an alarm to end, or for an answer."""
        self._released: Future[None] | None = None
        self._capabilities: frozenset[str] = frozenset()
        registry.add(self)

    def log_fields(self, **more: object) -> dict[str, object]:
        """What a log line about this connection says for programs, as its `extra`."""
        return {"connection": str(self.peer), "user": self.user, "vhost": self.vhost_name, **more}

    # Errors

    def guard(self, channel: Channel, key: int, action: Action) -> None:
        """Do something for a channel; an error is answered here and nowhere else."""
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
            channel.go_on(later=True)  # the output is being taken: no time for answers

    # Holding back

    @property
    def readable(self) -> bool:
        """The client may be read from: nothing of it that was held goes on, not too much is, and it reads its answers.

        Confirms do not count: they are not encoded before the socket takes them. Returns and answers do.
        """
        held_max = self.settings.held_bytes_max
        return not (
            self.write_blocked
            or self.channels_going_on
            or self.held_bytes > held_max
            or (self.blocked and self.incomplete_bytes > held_max)
        )

    @property
    def write_blocked(self) -> bool:
        """The client does not read its output."""
        return self.output.pending > UNREAD_OUTPUTS * self.settings.output_bytes_max

    @property
    def waits_to_be_read(self) -> bool:
        """What the client has sent waits, held or unread, until it reads its output, and for no alarm."""
        return self.write_blocked or (self.output.pending >= self.settings.output_bytes_max and not self.blocked)

    def hold(self, size: int) -> None:
        """Count what is held for this connection, in bytes."""
        self.held_bytes += size
        if size < 0:
            self.output.touch()  # the transport may read on

    def count_incomplete(self, size: int) -> None:
        """Count what has come of messages that are not whole; too much of it ends the connection that has most."""
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
        """The client publishes while a resource is short: it gets connection.blocked, if it has the capability."""
        if not self.blocked:
            self.blocked = True
            if self.knows("connection.blocked"):
                self.send(methods.ConnectionBlocked(self.broker.alarms.reason))

    def unblock(self) -> None:
        """Resources are plentiful again: what was held goes on."""
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
        """One side has said that it ends, and the log why: what becomes of the socket is no news."""
        return self.ended or self.phase is Phase.CLOSING

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
        if self.phase is Phase.CLOSING or self.ended:
            return
        log.warning("closing connection %s: %s", self.peer, error, extra=self.log_fields(code=int(error.code)))
        if self.phase not in CAN_SAY_CLOSE:
            self.refuse(str(error))
            return
        if error.code is ReplyCode.INTERNAL_ERROR and not error.told:  # the text is for the log alone, as in RabbitMQ
            self._say_close(error.code, reply_text(error.code, ""), 0)
            return
        key = (error.class_id << 16 | error.method_id) or failing
        self._say_close(error.code, reply_text(error.code, error.text), key)

    def refuse(self, reason: str, longer: float = 0.0) -> None:
        """End without a word: after silence while it is being set up (`longer`: more of it, in seconds), else at once.

        The reason is for the log.
        """
        log.warning("closing connection %s: %s", self.peer, reason, extra=self.log_fields())
        waiting = self.phase in (Phase.START, Phase.TUNE)
        self.release()
        self.end(SILENT_SECONDS + longer if waiting else 0.0)

    def force_close(self, text: str) -> None:
        """Send the client away: 320 CONNECTION_FORCED."""
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
        """Have the socket closed once the output is sent, and `linger` seconds have passed."""
        self.ended = True
        self.linger = linger
        self.output.touch()

    def say_goodbye(self) -> None:
        """Answer connection.close. To close a socket with unread bytes in it would take the answer from the client."""
        if not self.ended:
            self.send(methods.ConnectionCloseOk())
            self.discards = True
            self.end(min(self.heartbeat or DISCARD_SECONDS, DISCARD_SECONDS))

    def release(self) -> Future[None]:
        """Give back everything the client held: channels, consumers, exclusive queues; of very much, some at a time.

        What is returned is settled when nothing is left. Nothing is delivered or said to the client meanwhile.
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
        """Raise AssertionError unless channels are sound, and what they hold is counted; between two turns."""
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
            connection_events.connection_closed(self)


def enter(connection: Connection, vhost: VHost, *, trusted: bool = False) -> None:
    """Let a connection whose user is known into a virtual host: it is open. One that is `trusted` may do anything."""
    connection.vhost, connection.vhost_name = vhost, vhost.name
    connection.routes = connection.registry.share_routes(connection.user, vhost.name, trusted=trusted)
    connection.phase = Phase.OPEN
    vhost.statistics.traffic_sum.join(connection.traffic)
    connection.broker.statistics.churn.connection_created += 1
