"""One channel: its state, and the order in which it handles methods.

A channel handles its methods one after the other. While one waits for the disk - a durable declaration,
a transaction's commit - the channel is *gated*: later methods are held, and handled when the gate opens,
so that a publish right after a declaration without reply finds its queue. Publishes are held too while
the memory or disk alarm is raised; acknowledgements overtake them, because they free memory and disk.
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
from broker.session.channel.channel_event_messages import ChannelEventMessages
from broker.session.channel.channel_recording import ChannelRecorder, ConfirmRecorder
from broker.session.channel.confirms import ConfirmLedger
from broker.session.channel.delivery_tags import DeliveryLedger
from broker.session.channel.direct_reply import DirectReplyTo
from broker.session.channel.packed_deliveries import Taken
from broker.session.channel.requeueing import Requeueing
from broker.session.channel.transaction_contents import Leaving, Transaction, unfinished
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
    from broker.session.channel.held_methods import HeldMethods
    from broker.session.channel.route_cache import RouteCache
    from broker.session.output.output_buffer import Output
    from broker.session.peer import Peer
    from broker.session.session_settings import SessionSettings

log = logging.getLogger("leveret.channel")

T = TypeVar("T")

Action = Callable[[], object]

BODY_BYTES_MAX: Final = 536_870_912
"""RabbitMQ's upper limit for `limits.message_bytes_max`."""

HELD_OVERHEAD_BYTES: Final = 256
"""Approximate memory of a held method without its body."""


class Held(NamedTuple):
    """A method that waits: its key, the action that handles it, and its approximate memory."""

    key: int
    action: Action
    size: int


class NewConfirms(Protocol):
    """Makes the confirm ledger of a channel that enters confirm mode."""

    def __call__(self, channel: Channel, recorder: ConfirmRecorder | None) -> ConfirmLedger: ...


class DeliveryTiming(Protocol):
    """Has deliveries acknowledged in time: see `methods.delivery_timeout`."""

    def delivered(self, queue: Queue) -> None:
        """Note that deliveries up to the last tag have been made."""


class ChannelConnection:
    """A connection as its channels and their methods see it."""

    broker: Broker
    settings: SessionSettings
    peer: Peer
    number: int
    """Counts all connections since the start."""
    user: str
    vhost: VHost
    routes: RouteCache
    output: Output
    frame_max: int
    channels: dict[int, Channel]
    reply_channels: dict[str, Channel]
    """Channels with a reply consumer (direct reply-to), of all connections, by reply address."""
    handling: int
    """The key of the method being handled, for the error that it may cause."""
    held_methods: HeldMethods
    busy_channels: int
    """Number of its channels that are handling held methods or being released. Its socket is not read meanwhile."""
    new_confirms: NewConfirms
    publishes: bool
    """It has published since it last had to wait for the disk."""
    confirmed: bool
    """Its latest publish is to be answered, by a confirm or by tx.commit-ok."""
    client_name: str
    """The name that the client has given it; without one the client's product and host."""

    @property
    def write_blocked(self) -> bool:
        """True if the client does not read its output."""
        raise NotImplementedError

    def knows(self, capability: str) -> bool:
        """Return whether the client announced a capability (an extension of RabbitMQ)."""
        raise NotImplementedError

    def guard(self, channel: Channel, key: int, action: Action) -> None:
        """Run an action for a channel; an AMQP error is answered with close."""
        raise NotImplementedError

    def fail(self, error: ConnectionException, failing: int) -> None:
        """Close the connection with an error that the method with the key `failing` caused."""
        raise NotImplementedError

    def hold(self, size: int) -> None:
        """Add to the connection's held bytes."""
        raise NotImplementedError

    def count_incomplete(self, size: int) -> None:
        """Add to the connection's bytes of incomplete messages."""
        raise NotImplementedError

    def block(self) -> None:
        """Note that the client publishes while an alarm is raised."""
        raise NotImplementedError


class Channel(Outlet):
    """State of one channel. `recorder` is not None with the event log, `events` with the event exchange."""

    def __init__(
        self,
        connection: ChannelConnection,
        number: int,
        recorder: ChannelRecorder | None = None,
        events: ChannelEventMessages | None = None,
    ) -> None:
        self.connection = connection
        self.number = number
        self.recorder = recorder
        self.events = events
        self.vhost = connection.vhost
        self.client_name = connection.client_name
        self.message_bytes_max = connection.settings.message_bytes_max
        self.opened_at = connection.broker.clock.now()
        """Milliseconds since the epoch."""
        self.counters = ChannelCounters()
        self.pairs = ChannelPairs() if connection.settings.detailed_rates else None
        self.sizes = (
            connection.broker.statistics.message_sizes if connection.settings.personality.message_sizes else None
        )
        """The histogram of sizes of published messages; None if they are not counted."""
        self.vhost.statistics.channel_sum.join(self.counters)
        connection.broker.statistics.churn.channel_created += 1
        self.routes = connection.routes
        self.access = connection.routes.access
        self.assembler = Assembler(BODY_BYTES_MAX)
        self.deliveries = DeliveryLedger()
        self.consumers: dict[str, Consumer] = {}
        self.prefixes: OrderedDict[Consumer, bytes] = OrderedDict()
        """The start of each consumer's basic.deliver; the least recently served first if the channel has a limit."""
        self.timeouts: dict[Consumer | None, DeliveryTiming] = {}
        """Timings of deliveries, by consumer of a quorum queue; None: those by basic.get."""
        self.drawn_from: set[int] = set()
        """Ids of the queues that it has consumed or got from: they may have unacknowledged messages with it."""
        self.reads_streams = False
        """Some of them are streams."""
        self.confirms: ConfirmLedger | None = None
        self.confirmed = False
        """Publishes are answered: it is in confirm or tx mode."""
        self.header = b""
        """The content header of the last publish, of which `summary` is the parsed form: the next is usually equal."""
        self.summary: PropertySummary | None = None
        self.transaction: Transaction | None = None
        self.settling: list[Leaving] = []
        """Deliveries that are being settled or requeued over several turns, even after the channel has ended."""
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
        """True if the next method can be handled at once."""
        return not (self.gates or self.held or self.closing)

    def handle(self, key: int, action: Action, size: int, *, may_pass: bool = False) -> None:
        """Handle a method now, or after those before it. One that `may_pass` overtakes publishes held by an alarm."""
        if self.free or (may_pass and not self.gates and self.waits_for_alarm):
            action()
        else:
            self._hold(key, action, size)

    def hold_publish(self, action: Callable[[], object], body_bytes: int) -> None:
        """Hold a publish, and so all methods behind it, until the alarm has ended."""
        self.connection.block()
        self._hold(methods.BasicPublish.KEY, action, body_bytes + HELD_OVERHEAD_BYTES)

    def _hold(self, key: int, action: Action, size: int) -> None:
        self.held.append(Held(key, action, size))
        self.connection.hold(size)

    def when(self, future: Future[T], go_on: Callable[[T], None]) -> None:
        """Call `go_on` with the result of a future; the channel handles no other method until then (it is gated)."""
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
    def waits_for_alarm(self) -> bool:
        """True if the first held method is a publish and an alarm is raised."""
        return self.held[0].key == methods.BasicPublish.KEY and self.connection.broker.alarms.raised

    def go_on(self, *, later: bool = False) -> None:
        """Begin to handle held methods, some in each turn, up to the next gate; `later`: not before the next turn."""
        if self.held:
            self.connection.held_methods.add(self, later=later)

    # Out

    def send(self, method: Method, *, no_wait: bool = False) -> None:
        """Send a method on this channel, unless it is an answer that the client does not want (`no_wait`)."""
        if no_wait:
            return
        self.connection.output.send(method_frame(self.number, method))

    def fail(self, error: ChannelException, failing: int) -> None:
        """Close the channel with an error; `failing` is the key of the method that caused it."""
        text = reply_text(error.code, error.text)
        _log_failure(self, error.code, text)
        if (watch := self.connection.broker.watch) is not None:
            watch.closed(self.client_name, int(error.code), error.text)
        self.closing = True
        close = methods.ChannelClose(error.code, text, failing >> 16, failing & 0xFFFF)
        release(self, lambda: self.send(close), failed=True)

    # Consumers

    def room(self) -> int:
        """Return the output bytes that the connection takes before its deliveries stop."""
        return self.connection.output.room()

    def allowance(self) -> int:
        """Return the deliveries that the channel's prefetch limit leaves. It holds for no-ack consumers, too."""
        return self.prefetch_all - self.deliveries.consumed if self.prefetch_all else UNLIMITED

    def deliver(self, consumer: Consumer, entries: Sequence[QueuedMessage]) -> None:
        """Send deliveries to a consumer, and enter them into the ledger unless it is a no-ack consumer."""
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
            if self.timeouts and (timing := self.timeouts.get(consumer)) is not None:
                timing.delivered(consumer.queue)
        if recorder is not None:
            recorder.delivered(consumer.queue, consumer.tag, first, entries, no_ack=consumer.no_ack)

    @property
    def origin(self) -> firehose.TracedChannel:
        """This channel as the firehose shows it."""
        connection = self.connection
        return firehose.TracedChannel(
            self.vhost, str(connection.peer), self.number, connection.user, connection.settings.cluster_name
        )

    def unacked_of(self, queue: Queue) -> Iterable[QueuedMessage]:
        """Return the unacknowledged deliveries of one queue, including those being settled."""
        settled = (entry for entry in unfinished(self.transaction, self.settling) if entry.queue is queue)
        return chain(self.deliveries.of_queue(queue), settled)

    def cancelled(self, consumer: Consumer) -> None:
        """End a consumer whose queue is gone. A client with the capability gets basic.cancel (RabbitMQ's extension)."""
        if self.consumers.get(consumer.tag) is not consumer:
            return  # cancelled by the client meanwhile
        self.forget(consumer)
        _tell_cancelled(self, consumer)

    def forget(self, consumer: Consumer) -> None:
        """Forget a consumer that has ended; its deliveries stay unacknowledged."""
        del self.consumers[consumer.tag]
        del self.prefixes[consumer]
        self.timeouts.pop(consumer, None)
        if self.events is not None:
            self.events.consumer_deleted(consumer, gone=self.ended or self.closing)

    def replenish(self, *, settled: bool = False) -> None:
        """Resume consumers after output was sent or, with `settled`, after deliveries under the channel's limit were.

        Under that limit the least recently served consumer is first, and served at once: which queues this turn touches
        must not decide who gets the credit.
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
        """Enter confirm mode, unless it is on."""
        if self.confirms is None:
            recorder = None if self.recorder is None else ConfirmRecorder(self.recorder, self.connection.broker.turn)
            self.confirms = self.connection.new_confirms(self, recorder)
            self.confirmed = True

    def _end_confirms(self) -> None:
        if self.confirms is not None:
            self.confirms.end()
            self.connection.broker.batches.forget(self.confirms)
            self.confirms = None

    def check(self) -> None:
        """Raise AssertionError unless ledgers and consumers agree; to be called between two turns."""
        self.deliveries.check()
        if self.confirms is not None:
            self.confirms.check()
        if not self.consumers:  # before anything slow: an attack has thousands of idle channels
            assert not self.prefixes, "there are prefixes of consumers, and no consumers"
            return
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
        """End the channel with its connection: nothing more is handled or sent; `release` follows."""
        self._end_confirms()
        end(self)
        self.direct_reply.stop(self)

    def release(self, *, failed: bool = False) -> Iterator[int | None]:
        """Yield after each step of ending consumers and requeueing unacknowledged messages.

        As in RabbitMQ, a channel that `failed` keeps messages of queues that it does not consume from until
        channel.close-ok.
        """
        outstanding = [self.deliveries.take(0, multiple=True)]
        self.connection.count_incomplete(-self.assembler.bytes)
        self.assembler = Assembler(BODY_BYTES_MAX)
        if self.transaction is not None:
            self.connection.count_incomplete(-self.transaction.bytes)
            outstanding.append(Taken(self.transaction.settled))
            self.connection.broker.batches.forget(self.transaction)
            self.transaction = None
        consumed = {consumer.queue for consumer in self.consumers.values()}
        keeps = (lambda queue: queue not in consumed and not self.ended) if failed else None
        returning = Requeueing(self, *outstanding, abandoned=True, keeps=keeps)
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


def withdraw(channel: Channel, consumer: Consumer) -> None:
    """Cancel a consumer whose queue goes on: its time is up, or it may no longer read."""
    channel.end_consumer(consumer)
    _tell_cancelled(channel, consumer)


def _tell_cancelled(channel: Channel, consumer: Consumer) -> None:
    if not channel.ended and channel.connection.knows("consumer_cancel_notify"):
        channel.send(methods.BasicCancel(consumer.tag, no_wait=True))


def new_confirms(channel: Channel, recorder: ConfirmRecorder | None) -> ConfirmLedger:
    """Return the confirm ledger of a channel that enters confirm mode."""
    return ConfirmLedger(channel.number, channel.counters, channel.connection.output.answer, recorder)


def draw_from(channel: Channel, queue: Queue) -> None:
    """Note that a channel is about to consume from a queue, or has got from it."""
    channel.drawn_from.add(queue.store.queue_id)
    channel.reads_streams = channel.reads_streams or queue.type is STREAM


def release(channel: Channel, then: Callable[[], None], *, failed: bool = False) -> None:
    """Run `Channel.release`, then call `then` if the connection has not ended. Its socket is not read meanwhile."""
    connection = channel.connection
    connection.busy_channels += 1

    def released(_: Future[None]) -> None:
        connection.busy_channels -= 1
        connection.output.touch()  # the transport may read on
        if not channel.ended:
            then()

    connection.broker.background_work.begin(channel.release(failed=failed)).then(released)


def end(channel: Channel) -> None:
    """Mark a channel as ended and leave the sum of counters; later requeues are not counted for it."""
    channel.ended = True
    channel.counters = channel.vhost.statistics.channel_sum.leave(channel.counters)
    channel.connection.broker.statistics.churn.channel_closed += 1


def _log_failure(channel: Channel, code: ReplyCode, text: str) -> None:
    peer, number = channel.connection.peer, channel.number
    fields = {"connection": str(peer), "channel": number, "vhost": channel.vhost.name, "code": int(code)}
    words = "closing channel %d of connection %s: %s"
    log.warning(words, number, peer, text, extra={**fields, "user": channel.access.user})
