"""One channel: its state, and the order in which it handles methods.

A channel handles its methods one after the other. When one has to wait - a durable declaration for its commit,
a transaction for the disk - the channel is *gated*: what comes later is held, and handled when the gate opens,
so that a publish right after a declaration without reply still finds its queue. Publishes are held too while
memory or disk run short; acknowledgements pass by them, because they are what makes room.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from broker.entities.arguments.queue_types import STREAM
from broker.entities.messages.message import QueuedMessage
from broker.entities.queues.consumer_prefetch import UNLIMITED, Consumer, Outlet
from broker.entities.queues.queue import Queue
from broker.entities.scheduling.future import Future
from broker.entities.statistics.counters import ChannelCounters, count_deliveries
from broker.entities.statistics.pair_counters import ChannelPairs
from broker.session.channel import firehose
from broker.session.channel.channel_events import ChannelEvents
from broker.session.channel.channel_recording import ChannelRecorder, ConfirmRecorder
from broker.session.channel.confirms import ConfirmLedger
from broker.session.channel.deliveries import DeliveryLedger
from broker.session.channel.direct_reply import DirectReplyTo
from broker.session.channel.old_deliveries import Taken
from broker.session.channel.returning import Returning
from broker.session.channel.transaction import Leaving, Transaction, unfinished
from broker.session.output import content_frames
from broker.wire import methods
from broker.wire.amqp_errors import ChannelException, ConnectionException, reply_text
from broker.wire.assembler import Assembler
from broker.wire.constants import ReplyCode
from broker.wire.frames import method_frame
from broker.wire.method import Method
from broker.wire.properties import PropertySummary

if TYPE_CHECKING:
    from broker.entities.node.broker import Broker
    from broker.entities.vhosts.vhost import VHost
    from broker.session.channel.going_on import GoingOn
    from broker.session.channel.route_cache import RouteCache
    from broker.session.output.output_buffer import Output
    from broker.session.peer import Peer
    from broker.session.session_settings import SessionSettings

log = logging.getLogger("leveret.channel")

T = TypeVar("T")

Action = Callable[[], object]

BODY_BYTES_MAX: Final = 536_870_912
"""No message may be larger, whatever the configuration says; RabbitMQ's own ceiling."""

HELD_OVERHEAD_BYTES: Final = 256
"""What a held method costs beside its body, roughly."""


class Held(NamedTuple):
    """A method that waits: its key, what it does, and roughly how much memory it takes."""

    key: int
    action: Action
    size: int


class NewConfirms(Protocol):
    """Makes the ledger of a channel that enters confirm mode."""

    def __call__(self, channel: Channel, recorder: ConfirmRecorder | None) -> ConfirmLedger: ...


class ChannelConnection:
    """What channels, and the methods that they handle, know of their connection."""

    broker: Broker
    settings: SessionSettings
    peer: Peer
    number: int
    """Of all connections since the start."""
    user: str
    vhost: VHost
    routes: RouteCache
    output: Output
    frame_max: int
    channels: dict[int, Channel]
    reply_channels: dict[str, Channel]
    """Channels that wait for direct replies, on any connection, by the address of the replies."""
    handling: int
    going_on: GoingOn
    channels_going_on: int
    """How many of its channels go on with what they held, or give back what they had: it is not read from before."""
    new_confirms: NewConfirms
    publishes: bool
    confirmed: bool

    @property
    def write_blocked(self) -> bool:
        """The client does not read its output."""
        raise NotImplementedError

    def knows(self, capability: str) -> bool:
        """The client understands one of RabbitMQ's extensions."""
        raise NotImplementedError

    def guard(self, channel: Channel, key: int, action: Action) -> None:
        """Do something for a channel; an error is answered there."""
        raise NotImplementedError

    def fail(self, error: ConnectionException, failing: int) -> None:
        """End the connection with an error that the method with the key `failing` caused."""
        raise NotImplementedError

    def hold(self, size: int) -> None:
        """Count what is held for the connection, in bytes."""
        raise NotImplementedError

    def count_incomplete(self, size: int) -> None:
        """Count what has come of messages that are not whole, in bytes."""
        raise NotImplementedError

    def block(self) -> None:
        """The client publishes while a resource is short."""
        raise NotImplementedError


class Channel(Outlet):
    """State of one channel of one connection. `recorder` is there where events are logged, `events` where published."""

    def __init__(
        self,
        connection: ChannelConnection,
        number: int,
        recorder: ChannelRecorder | None = None,
        events: ChannelEvents | None = None,
    ) -> None:
        self.connection = connection
        self.number = number
        self.recorder = recorder
        self.events = events
        self.vhost = connection.vhost
        self.message_bytes_max = connection.settings.message_bytes_max
        self.opened_at = connection.broker.clock.now()
        """In milliseconds since the epoch."""
        self.counters = ChannelCounters()
        self.pairs = ChannelPairs() if connection.settings.detailed_rates else None
        self.vhost.statistics.channel_sum.join(self.counters)
        connection.broker.statistics.churn.channel_created += 1
        self.routes = connection.routes
        self.access = connection.routes.access
        self.assembler = Assembler(BODY_BYTES_MAX)
        self.deliveries = DeliveryLedger()
        self.consumers: dict[str, Consumer] = {}
        self.prefixes: OrderedDict[Consumer, bytes] = OrderedDict()
        """The bytes that each consumer's deliveries begin with. With a channel limit the last served comes last."""
        self.drawn_from: set[int] = set()
        """The numbers of the queues it has consumed or got from: those that may have messages out with it."""
        self.reads_streams = False
        """Streams are, or were, among them."""
        self.confirms: ConfirmLedger | None = None
        self.confirmed = False
        """Whether publishes are answered: in confirm mode, and in transactions."""
        self.header = b""
        """The content header of a publish before, and what it says: the next has the same, as a rule."""
        self.summary: PropertySummary | None = None
        self.transaction: Transaction | None = None
        self.settling: list[Leaving] = []
        """What is settled or goes back over several turns, even when the channel has ended meanwhile."""
        self.prefetch = 0
        self.prefetch_all = 0
        self.last_queue = ""
        self.direct_reply = DirectReplyTo()
        self.closing = False
        self.ended = False
        self.gates = 0
        self.held: deque[Held] = deque()

    # Order

    @property
    def free(self) -> bool:
        """Whatever comes can be handled at once."""
        return not (self.gates or self.held or self.closing)

    def handle(self, key: int, action: Action, size: int, *, may_pass: bool = False) -> None:
        """Do something now, or once everything before it is done; what `may_pass` does not wait for publishes."""
        if self.free or (may_pass and not self.gates and self.waits_for_room):
            action()
        else:
            self._hold(key, action, size)

    def hold_publish(self, action: Callable[[], object], body_bytes: int) -> None:
        """A resource is short: keep a publish, and whatever follows it, until there is enough again."""
        self.connection.block()
        self._hold(methods.BasicPublish.KEY, action, body_bytes + HELD_OVERHEAD_BYTES)

    def _hold(self, key: int, action: Action, size: int) -> None:
        self.held.append(Held(key, action, size))
        self.connection.hold(size)

    def when(self, future: Future[T], go_on: Callable[[T], None]) -> None:
        """Go on with a result once it is there; nothing else happens on this channel before."""
        if future.done:
            go_on(future.result())
            return
        self.gates += 1
        failing = self.connection.handling

        def settled(outcome: Future[T]) -> None:
            self.gates -= 1
            if not (self.closing or self.ended):
                self.connection.guard(self, failing, lambda: go_on(outcome.result()))
            self.go_on()

        future.then(settled)

    @property
    def waits_for_room(self) -> bool:
        """What is held begins with a publish, and memory or disk run short."""
        return self.held[0].key == methods.BasicPublish.KEY and self.connection.broker.alarms.raised

    def go_on(self, *, later: bool = False) -> None:
        """Handle what was held, up to the next gate; of much, some in each turn. `later`: nothing of it in this one."""
        if self.held:
            self.connection.going_on.add(self, later=later)

    # Out

    def send(self, method: Method, *, no_wait: bool = False) -> None:
        """Send a method on this channel; nothing where it is an answer that the client does not want."""
        if no_wait:
            return
        self.connection.output.send(method_frame(self.number, method))

    def fail(self, error: ChannelException, failing: int) -> None:
        """End the channel with an error; `failing` is the key of the method that caused it."""
        text = reply_text(error.code, error.text)
        _log_failure(self, error.code, text)
        self.closing = True
        close = methods.ChannelClose(error.code, text, failing >> 16, failing & 0xFFFF)
        release(self, lambda: self.send(close), failed=True)

    # Consumers

    def room(self) -> int:
        """How much more output its connection takes before it counts as slow."""
        return self.connection.output.room()

    def allowance(self) -> int:
        """What the channel's prefetch limit leaves. A consumer without acknowledgements waits for it, too."""
        return self.prefetch_all - self.deliveries.consumed if self.prefetch_all else UNLIMITED

    def deliver(self, consumer: Consumer, entries: Sequence[QueuedMessage]) -> None:
        """Send deliveries; those of a consumer that acknowledges are written into the ledger."""
        ledger, recorder = self.deliveries, self.recorder
        first = ledger.last + 1
        if self.vhost.traced:
            firehose.delivered(self.origin, entries)
        sent = entries if recorder is None else recorder.as_sent(entries)
        pieces, size, again = content_frames.deliver_batch(
            self.number, self.prefixes[consumer], first, sent, self.connection.frame_max
        )
        self.connection.output.send_all(pieces, size)
        count_deliveries(self.counters, consumer.queue.counters, len(entries), again, no_ack=consumer.no_ack)
        if self.pairs is not None:
            self.pairs.delivered(consumer.queue.name, len(entries), again, no_ack=consumer.no_ack)
        if self.prefetch_all:
            self.prefixes.move_to_end(consumer)
        if consumer.no_ack:
            ledger.skip(len(entries))
        else:
            ledger.add_all(entries, size)
        if recorder is not None:
            recorder.delivered(consumer.queue, consumer.tag, first, entries, no_ack=consumer.no_ack)

    @property
    def origin(self) -> firehose.Origin:
        """What the firehose says of where a message was published or delivered."""
        connection = self.connection
        return firehose.Origin(
            self.vhost, str(connection.peer), self.number, connection.user, connection.settings.cluster_name
        )

    def unacked_of(self, queue: Queue) -> Iterable[QueuedMessage]:
        """What is out with the client of one queue."""
        settled = (entry for entry in unfinished(self.transaction, self.settling) if entry.queue is queue)
        return chain(self.deliveries.of_queue(queue), settled)

    def cancelled(self, consumer: Consumer) -> None:
        """A queue is gone: its consumer ends. A client with the capability gets basic.cancel (RabbitMQ's extension)."""
        if self.consumers.get(consumer.tag) is not consumer:
            return  # cancelled by the client meanwhile
        self.forget(consumer)
        if not self.ended and self.connection.knows("consumer_cancel_notify"):
            self.send(methods.BasicCancel(consumer.tag, no_wait=True))

    def forget(self, consumer: Consumer) -> None:
        """A consumer has ended; what it was given stays outstanding."""
        del self.consumers[consumer.tag]
        del self.prefixes[consumer]
        if self.events is not None:
            self.events.consumer_deleted(consumer, gone=self.ended or self.closing)

    def replenish(self, *, settled: bool = False) -> None:
        """Room has been made that any consumer may use; `settled`: under the limit of the whole channel.

        Under that limit the consumer served longest ago is first, and at once: no queue gets ahead of others by what
        else happens in this turn.
        """
        for consumer in list(self.prefixes):
            if not consumer.waiting:
                consumer.resume()
            if settled:
                consumer.queue.deliver_now()
                if self.allowance() <= 0:
                    break

    # Confirms

    def confirm_publishes(self) -> None:
        """Enter confirm mode; no harm where it is on."""
        if self.confirms is None:
            recorder = None if self.recorder is None else ConfirmRecorder(self.recorder, self.connection.broker.turn)
            self.confirms = self.connection.new_confirms(self, recorder)
            self.confirmed = True

    def _end_confirms(self) -> None:
        if self.confirms is not None:
            self.confirms.end()
            self.confirms = None

    def check(self) -> None:
        """Raise AssertionError unless ledgers and consumers are sound and agree, between two turns."""
        self.deliveries.check()
        if self.confirms is not None:
            self.confirms.check()
        assert self.prefixes.keys() == set(self.consumers.values()), "consumers and their prefixes differ"
        out = Counter(
            entry.consumer
            for entry in (*dict(self.deliveries.items()).values(), *unfinished(self.transaction, self.settling))
        )
        for tag, consumer in self.consumers.items():
            assert consumer.unacked == out[consumer], (
                f"consumer '{tag}' counts {consumer.unacked} deliveries, {out[consumer]} are out"
            )

    # End

    def stop(self) -> None:
        """The connection is at its end: nothing more is handled or said, and what the channel holds is about to go."""
        self._end_confirms()
        end(self)
        self.direct_reply.stop(self)

    def release(self, *, failed: bool = False) -> Iterator[int | None]:
        """Steps that give everything back: consumers end, what is unacknowledged returns to its queues.

        As in RabbitMQ, a channel that `failed` keeps until its close is answered what it took from queues that it
        does not consume from.
        """
        outstanding = [self.deliveries.take(0, multiple=True)]
        self.connection.count_incomplete(-self.assembler.bytes)
        self.assembler = Assembler(BODY_BYTES_MAX)
        if self.transaction is not None:
            self.connection.count_incomplete(-self.transaction.bytes)
            outstanding.append(Taken(self.transaction.settled))
            self.transaction = None
        consumed = {consumer.queue for consumer in self.consumers.values()}
        keeps = (lambda queue: queue not in consumed and not self.ended) if failed else None
        returning = Returning(self, *outstanding, abandoned=True, keeps=keeps)
        for consumer in reversed(list(self.consumers.values())):  # a waiting single consumer before the active one
            if self.consumers.get(consumer.tag) is consumer:
                self.end_consumer(consumer)
            if self.ended:
                yield None
        if self.events is not None and (failed or not self.closing):
            self.events.closed()
        self.closing = True
        self.direct_reply.stop(self)
        self._end_confirms()
        self.connection.hold(-sum(held.size for held in self.held))
        self.held.clear()
        yield from returning.steps()

    def end_consumer(self, consumer: Consumer) -> None:
        """Cancel a consumer; an auto-delete queue goes with its last one."""
        self.forget(consumer)
        queue = consumer.queue
        if queue.deleted:
            return
        queue.consumers.remove(consumer)
        queue.touch()
        if queue.spec.auto_delete and not queue.consumers.members:
            self.vhost.delete_queue(queue)


def new_confirms(channel: Channel, recorder: ConfirmRecorder | None) -> ConfirmLedger:
    """The ledger of a channel that enters confirm mode."""
    return ConfirmLedger(channel.number, channel.counters, channel.connection.output.answer, recorder)


def draw_from(channel: Channel, queue: Queue) -> None:
    """A channel is about to consume from a queue, or has got from it."""
    channel.drawn_from.add(queue.store.queue_id)
    channel.reads_streams = channel.reads_streams or queue.type is STREAM


def release(channel: Channel, then: Callable[[], None], *, failed: bool = False) -> None:
    """Have a channel give everything back, then go on, if its connection has not ended; the client is not read before.

    See `Channel.release`.
    """
    connection = channel.connection
    connection.channels_going_on += 1

    def released(_: Future[None]) -> None:
        connection.channels_going_on -= 1
        connection.output.touch()  # the transport may read on
        if not channel.ended:
            then()

    connection.broker.background_work.begin(channel.release(failed=failed)).then(released)


def end(channel: Channel) -> None:
    """A channel's number is free again, or its connection ends. What it still gives back is counted without it."""
    channel.ended = True
    channel.counters = channel.vhost.statistics.channel_sum.leave(channel.counters)
    channel.connection.broker.statistics.churn.channel_closed += 1


def _log_failure(channel: Channel, code: ReplyCode, text: str) -> None:
    peer, number = channel.connection.peer, channel.number
    fields = {"connection": str(peer), "channel": number, "vhost": channel.vhost.name, "code": int(code)}
    words = "closing channel %d of connection %s: %s"
    log.warning(words, number, peer, text, extra={**fields, "user": channel.access.user})
