"""basic.publish.

Publishes come many at a time, and most of them are *plain*: they need no check or routing of their own. `PublishBatch`
alone decides which are, and is the publish fast path: plain publishes in a row that go to the same queues
are enqueued together. All others go through `special_publish`. A publish that was assembled frame by frame is a batch
of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.entities.arguments.queue_types import QUORUM
from broker.entities.messages.message import Message
from broker.entities.queues.delay_queue import DelayQueue
from broker.session.channel.channel import HELD_OVERHEAD_BYTES
from broker.session.methods import rehearsed_methods, special_publish
from broker.session.output import content_frames
from broker.wire.amqp_errors import ChannelException, ConnectionException, DecodeError
from broker.wire.constants import ReplyCode
from broker.wire.properties import PropertySummary, summarize
from storage.batch import PERSISTENT

if TYPE_CHECKING:
    from broker.entities.queues.queue import Queue
    from broker.entities.statistics.counters import ExchangeCounters
    from broker.session.channel.channel import Channel
    from broker.session.channel.route_cache import CachedRoute

HEADER_BYTES_MAX = 1024
"""Longer content headers are not remembered for the next publish."""

LARGE_BYTES = 1 << 20
"""Size from which a persistent message, or a transaction, is refused if the disk has too little space for it."""


def publish(channel: Channel, arguments: bytes, header: bytes, body: bytes) -> None:
    """Handle one basic.publish; `arguments` are the method's, undecoded.

    Raises ChannelException and ConnectionException as RabbitMQ does.
    """
    batch = PublishBatch(channel)
    queues = batch.plain_queues(arguments, header, len(body))
    if queues:
        batch.add(queues, header, [body])
        batch.enqueue()
    else:
        batch.publish_special(arguments, header, body)


class PublishBatch:
    """The publishes of one channel that were received together, handled in order.

    For each, the caller asks `plain_queues`, then calls `add` if it is plain, else `publish_special`. Plain ones are
    pending until `enqueue`, or a publish that has to come behind them, puts them into their queues.

    Five attributes are about one publish. `_blocked`, `_route`, `_summary` and `_found` describe the one last passed to
    `plain_queues`: they are its result for `add` and `publish_special`, kept here because an object for each publish
    would cost an allocation. `_pending_route` is the route of the pending messages.
    """

    __slots__ = (
        "_blocked",
        "_channel",
        "_copies",
        "_flags",
        "_found",
        "_pending",
        "_pending_route",
        "_publishes",
        "_queues",
        "_route",
        "_summary",
    )

    _blocked: bool
    """The memory or disk alarm is raised: the publish has to be held. The next three are then not set."""
    _route: CachedRoute
    """Its cached route, resolved and not stale."""
    _summary: PropertySummary
    """Its parsed content header."""
    _found: tuple[Queue, ...] | None
    """Its queues; None if it has to be routed by itself."""
    _pending_route: CachedRoute
    """Route of the pending messages, as `_queues` and `_flags` are theirs."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._pending: list[Message] = []
        self._queues: tuple[Queue, ...] = ()
        self._flags = 0
        self._publishes = self._copies = 0
        """Messages put into queues and not counted yet; all were published to one exchange."""

    def plain_queues(self, arguments: bytes, header: bytes, body_bytes: int) -> tuple[Queue, ...]:
        """Return the queues of a publish if it is plain, else none. Raises as `publish` does.

        It is plain if no alarm is raised, no transaction is open, the broker need not act on its properties, its queues
        follow from its arguments, and none of them has a length limit.
        """
        channel = self._channel
        connection = channel.connection
        connection.publishes, connection.confirmed = True, channel.confirmed
        blocked = self._blocked = connection.broker.alarms.raised
        if blocked:
            return ()
        routes = channel.routes
        route = self._route = routes.by_arguments.get(arguments) or routes.parse(arguments)
        exchange = route.exchange
        if (  # `route.is_stale` written out, to save a call for each publish
            exchange is None
            or exchange.version != route.version
            or routes.access.cache_epoch.number != route.cache_epoch
        ):
            routes.resolve(route, channel.vhost)
        if body_bytes > channel.message_bytes_max:
            raise _too_large(body_bytes, channel.message_bytes_max)
        summary = channel.summary
        if summary is None or header != channel.header:  # usually equal, unless the body's size in it differs
            summary = _summarize(channel, header)
        queues = route.queues
        if queues is None and not route.routed:
            queue = channel.vhost.queues.get(route.key)
            queues = () if queue is None else (queue,)
        self._summary, self._found = summary, queues
        if body_bytes >= LARGE_BYTES and summary.persistent:
            check_disk_space(channel, body_bytes, "message")
        if queues is None or not summary.ordinary or channel.transaction is not None:
            return ()
        for queue in queues:
            if queue.limits.on_length:
                return ()
        return queues

    def add(self, queues: tuple[Queue, ...], header: bytes, bodies: list[bytes]) -> None:
        """Add plain publishes with these bodies, otherwise equal to the one last passed to `plain_queues`."""
        summary = self._summary
        flags = PERSISTENT if summary.persistent else 0
        found = self._route
        if self._pending:
            if found.exchange is not self._pending_route.exchange:
                self.enqueue()  # counters are per exchange: count before it changes
            elif queues != self._queues or flags != self._flags:
                self._put_pending()
        self._queues, self._flags, self._pending_route = queues, flags, found
        route, priority, pending = found.route, summary.priority, self._pending
        for body in bodies:
            message = Message(route, header, body, flags)
            message.expiration = summary.milliseconds
            if priority:
                message.priority = priority
            pending.append(message)

    def enqueue(self) -> None:
        """Put pending messages into their queues, and count all that were put there since the last call."""
        if self._pending:
            self._put_pending()
            _count(self._channel, self._pending_route, self._publishes, self._copies)
            self._publishes = self._copies = 0

    def _put_pending(self) -> None:
        messages, self._pending = self._pending, []
        publishes, queues = len(messages), self._queues
        self._publishes += publishes
        self._copies += publishes * len(queues)
        _put(self._channel, messages, self._pending_route, queues)

    def publish_special(self, arguments: bytes, header: bytes, body: bytes) -> int:
        """Handle a publish that is not plain, behind the pending ones; return its copies. Raises as `publish` does."""
        self.enqueue()
        channel = self._channel
        if self._blocked:
            channel.hold_publish(partial(publish, channel, arguments, header, body), len(body))
            return 1
        route = self._route
        message, queues = special_publish.prepare(channel, route, self._summary, self._found, header, body)
        if (watch := channel.connection.broker.watch) is not None:
            rehearsed_methods.publishes(watch, channel, self._summary, queues)
        transaction = channel.transaction
        if transaction is None:
            _enqueue(channel, message, route, queues)
            return len(queues) or 1
        size = len(header) + len(body) + HELD_OVERHEAD_BYTES
        transaction.bytes += size
        transaction.publishes.append(partial(_enqueue_at_commit, channel, message, route, queues))
        channel.connection.count_incomplete(size)
        return 1


def _summarize(channel: Channel, header: bytes) -> PropertySummary:
    """Parse a content header, and remember it for the next publish unless it is long."""
    try:
        summary = summarize(header)
    except DecodeError as error:
        raise ConnectionException(ReplyCode.INTERNAL_ERROR, "") from error
    if channel.connection.settings.interceptors.work:
        summary = summary.acted_on()
    watch = channel.connection.broker.watch
    if watch is not None and rehearsed_methods.is_looked_at(watch, channel, header, summary):
        summary = summary.acted_on()
    if len(header) <= HEADER_BYTES_MAX:
        channel.header, channel.summary = header, summary
    return summary


def _enqueue(channel: Channel, message: Message, route: CachedRoute, queues: tuple[Queue, ...]) -> None:
    """Put one message into queues, and count it."""
    exchange = route.exchange
    assert exchange is not None, "it has been resolved"
    _count(channel, route, 1, len(queues))
    if exchange.delays is not None and exchange.delays in queues:
        exchange.counters.publish_out -= 1  # a delayed message is counted when its time has come
    _put(channel, (message,), route, queues)


def _count(channel: Channel, route: CachedRoute, publishes: int, copies: int) -> None:
    exchange = route.exchange
    assert exchange is not None, "it has been resolved"
    of_channel, of_exchange = channel.counters, exchange.counters
    of_channel.publish += publishes
    of_channel.routed += copies
    of_exchange.publish_in += publishes
    of_exchange.publish_out += copies


def _put(channel: Channel, messages: Sequence[Message], route: CachedRoute, queues: tuple[Queue, ...]) -> None:
    """Put messages, all persistent or none, into queues, and note them for confirms.

    The caller passes several messages only if there are queues and none of them has a length limit. `route` tells
    whether a message without a queue is mandatory.
    """
    assert len(messages) == 1 or queues, "only a single message may be unroutable"
    if channel.recorder is not None:
        in_transaction = channel.transaction is not None
        returned = route.mandatory and not queues
        channel.recorder.published(messages, len(queues), returned=returned, in_transaction=in_transaction)
    exchange = route.exchange
    assert exchange is not None, "it has been resolved"
    if not queues:
        mandatory = route.mandatory and not special_publish.taken_as_reply(channel, route)
        _miss(channel, exchange.counters, messages[0], mandatory=mandatory)
    if len(queues) > 1:  # the store keeps one body for all of them
        for message in messages:
            channel.vhost.share_body(message, queues)
    count = len(messages)
    if channel.sizes is not None:
        if count == 1:
            channel.sizes.observe(len(messages[0].body))
        else:
            channel.sizes.observe_all([len(message.body) for message in messages])
    if channel.pairs is not None:
        channel.pairs.published(route.name, queues, count, mandatory=route.mandatory)
    durable = refused = False
    for queue in queues:
        queue.counters.publish += count
        if queue.limits.on_length and queue.limits.refuses(messages[0]):
            refused = True
            if channel.transaction is not None and queue.type is not QUORUM:  # as in RabbitMQ, 4.3 included
                channel.transaction.refused = True
            queue.limits.turn_away(messages[0])
        elif queue.publish(messages[0]) if count == 1 else queue.publish_all(messages):
            durable = True
    if refused and channel.recorder is not None and channel.transaction is not None:
        channel.recorder.turned_away()
    ledger = channel.confirms
    if ledger is None:
        return
    if ledger.exchange is not exchange.counters:
        ledger.publish_to(exchange.counters)
    if refused or not durable:
        ledger.settle(count, refused=refused)
        return
    batches = channel.connection.broker.batches
    if ledger.wait_for(batches.current.number, count):  # the batch tells a ledger once, for all of its publishes
        batches.wait(ledger)


def _miss(channel: Channel, of_exchange: ExchangeCounters, message: Message, *, mandatory: bool) -> None:
    """Count a message that reached no queue, and return it if it is mandatory."""
    if not mandatory:
        channel.counters.drop_unroutable += 1
        of_exchange.drop_unroutable += 1
        return
    channel.counters.return_unroutable += 1
    of_exchange.return_unroutable += 1
    connection = channel.connection
    if connection.broker.watch is not None:
        rehearsed_methods.misses(connection.broker.watch, channel, message)
    connection.output.send(content_frames.returned(channel.number, message, connection.frame_max))


def _enqueue_at_commit(channel: Channel, message: Message, route: CachedRoute, queues: tuple[Queue, ...]) -> int:
    """Enqueue a publish of a transaction at its commit; return the number of copies, at least 1.

    Queues are looked up by name again: they may have been deleted, or created again, since. A delayed message needs
    the same delay queue.
    """
    named = channel.vhost.queues
    found = (queue if isinstance(queue, DelayQueue) else named.get(queue.name) for queue in queues)
    there = tuple(queue for queue in found if queue is not None and not queue.deleted)
    _enqueue(channel, message, route, there)
    return len(there) or 1


def check_disk_space(channel: Channel, size_bytes: int, what: str) -> None:
    """Raise ChannelException 311 (0-9-1: "content larger than the server could accept at the present time").

    It refuses contents of LARGE_BYTES or more that exceed the free disk space. Smaller ones cannot: they are held once
    the disk alarm is raised, which is before the space below its limit is used.
    """
    if size_bytes < LARGE_BYTES:
        return
    room = channel.connection.broker.free_disk_bytes()
    if size_bytes > room:
        text = f"{what} of {size_bytes} bytes is larger than the room on the broker's disk, {max(0, room)} bytes"
        raise ChannelException(ReplyCode.CONTENT_TOO_LARGE, text)


def _too_large(body_bytes: int, limit: int) -> ChannelException:
    text = f"message size {body_bytes} is larger than configured max size {limit}"
    return ChannelException(ReplyCode.PRECONDITION_FAILED, text)
