"""basic.publish, the method everything is about.

Publishes come many at a time, and most of them are *plain*: nothing about them needs a closer look. `PublishBatch` is
the one place that knows when, and the publish fast path: plain publishes that come in a row and go to the same queues
are enqueued together. A publish that is not plain goes through `special_publish`, which does what its properties ask
for. A publish that was assembled frame by frame is a batch of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.entities.messages.message import Message
from broker.entities.queues.delay_queue import DelayQueue
from broker.session.channel.channel import HELD_OVERHEAD_BYTES
from broker.session.methods import special_publish
from broker.session.output import content_frames
from broker.wire.amqp_errors import ChannelException, ConnectionException, DecodeError
from broker.wire.constants import ReplyCode
from broker.wire.properties import PropertySummary, summarize
from storage.batch import PERSISTENT

HEADER_BYTES_MAX = 1024
"""Longer content headers are not remembered."""

LARGE_BYTES = 1 << 20
"""From this size on a message, or a transaction, is looked at before it is taken: is there room on the disk?"""

if TYPE_CHECKING:
    from broker.entities.queues.queue import Queue
    from broker.session.channel.channel import Channel
    from broker.session.channel.route_cache import CachedRoute


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
    """The publishes of one channel that have come at one time, handled in their order.

    For each, `plain_queues` comes first; then `add` if it is plain, and `publish_special` if not. Plain ones wait
    until something needs them to be in their queues: `enqueue` puts them there.
    """

    __slots__ = (
        "_channel",
        "_copies",
        "_flags",
        "_found",
        "_held",
        "_pending",
        "_publishes",
        "_queues",
        "_route",
        "_summary",
        "_waiting",
    )

    _held: bool
    """Of the publish that was looked at last, as the next three: a resource is short."""
    _route: CachedRoute
    _summary: PropertySummary
    _found: tuple[Queue, ...] | None
    """Where it goes; None where it has to be routed by itself."""
    _waiting: CachedRoute
    """Of those that wait, as queues and flags: the route of the last."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._pending: list[Message] = []
        self._queues: tuple[Queue, ...] = ()
        self._flags = 0
        self._publishes = self._copies = 0
        """What is in its queues and not counted yet: all of it was published to one exchange."""

    def plain_queues(self, arguments: bytes, header: bytes, body_bytes: int) -> tuple[Queue, ...]:
        """The queues that a publish goes to if it is plain, and none if it needs a closer look.

        It is plain when no resource is short, no transaction is open, its properties ask for nothing, its queues are
        known without it, and none of them has a limit on its length. Raises as `publish` does.
        """
        channel = self._channel
        connection = channel.connection
        connection.publishes, connection.confirmed = True, channel.confirmed
        held = self._held = connection.broker.alarms.raised
        if held:
            return ()
        routes = channel.routes
        route = self._route = routes.by_arguments.get(arguments) or routes.parse(arguments)
        exchange = route.exchange
        if (  # as `route.is_stale`, which here would be a call for each publish
            exchange is None
            or exchange.version != route.version
            or routes.access.cache_epoch.number != route.cache_epoch
        ):
            routes.resolve(route, channel.vhost)
        if body_bytes > channel.message_bytes_max:
            raise _too_large(body_bytes, channel.message_bytes_max)
        summary = channel.summary
        if summary is None or header != channel.header:  # the same, as a rule, save for the size of the body in it
            summary = _summarize(channel, header)
        queues = route.queues
        if queues is None and not route.routed:
            queue = channel.vhost.queues.get(route.key)
            queues = () if queue is None else (queue,)
        self._summary, self._found = summary, queues
        if body_bytes >= LARGE_BYTES and summary.persistent:
            check_room(channel, body_bytes, "message")
        if queues is None or not summary.ordinary or channel.transaction is not None:
            return ()
        for queue in queues:
            if queue.limits.on_length:
                return ()
        return queues

    def add(self, queues: tuple[Queue, ...], header: bytes, bodies: list[bytes]) -> None:
        """Take plain publishes: those with these bodies, otherwise the same as the one that was looked at last."""
        summary = self._summary
        flags = PERSISTENT if summary.persistent else 0
        found = self._route
        if self._pending:
            if found.exchange is not self._waiting.exchange:
                self.enqueue()
            elif queues != self._queues or flags != self._flags:
                self._put_waiting()
        self._queues, self._flags, self._waiting = queues, flags, found
        route, priority, pending = found.route, summary.priority, self._pending
        for body in bodies:
            message = Message(route, header, body, flags)
            message.expiration = summary.milliseconds
            if priority:
                message.priority = priority
            pending.append(message)

    def enqueue(self) -> None:
        """Put what waits into its queues, and count what has been put there: once for a row, however often its queues
        change."""
        if self._pending:
            self._put_waiting()
            _count(self._channel, self._waiting, self._publishes, self._copies)
            self._publishes = self._copies = 0

    def _put_waiting(self) -> None:
        messages, self._pending = self._pending, []
        publishes, queues = len(messages), self._queues
        self._publishes += publishes
        self._copies += publishes * len(queues)
        _put(self._channel, messages, self._waiting, queues)

    def publish_special(self, arguments: bytes, header: bytes, body: bytes) -> int:
        """Publish what is not plain, behind what waits; how many copies it made. Raises as `publish` does."""
        self.enqueue()
        channel = self._channel
        if self._held:
            channel.hold_publish(partial(publish, channel, arguments, header, body), len(body))
            return 1
        route = self._route
        message, queues = special_publish.prepare(channel, route, self._summary, self._found, header, body)
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
    """What a content header says; remembered for the next publish unless the header is long."""
    try:
        summary = summarize(header)
    except DecodeError as error:
        raise ConnectionException(ReplyCode.INTERNAL_ERROR, "") from error
    if len(header) <= HEADER_BYTES_MAX:
        channel.header, channel.summary = header, summary
    return summary


def _enqueue(channel: Channel, message: Message, route: CachedRoute, queues: tuple[Queue, ...]) -> None:
    """Put one message into queues, and count it."""
    exchange = route.exchange
    assert exchange is not None, "it has been resolved"
    _count(channel, route, 1, len(queues))
    if exchange.delays is not None and exchange.delays in queues:
        exchange.counters.publish_out -= 1  # what is delayed goes out when its time has come
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
    """Put messages, all persistent or none, into queues, and note what is to be confirmed.

    Only one at a time goes to no queue, or to queues that may refuse it because they are full. Of the route counts,
    for a message without a queue, whether it is mandatory.
    """
    if channel.recorder is not None:
        in_transaction = channel.transaction is not None
        returned = route.mandatory and not queues
        channel.recorder.published(messages, len(queues), returned=returned, in_transaction=in_transaction)
    if not queues:
        _miss(channel, messages[0], mandatory=route.mandatory and not special_publish.taken_as_reply(channel, route))
    if len(queues) > 1:
        for message in messages:
            channel.vhost.share_body(message, queues)
    count = len(messages)
    if channel.pairs is not None:
        channel.pairs.published(route.name, queues, count, mandatory=route.mandatory)
    durable = refused = False
    for queue in queues:
        queue.counters.publish += count
        if queue.limits.on_length and queue.limits.refuses(messages[0]):
            refused = True
            queue.limits.turn_away(messages[0])
        elif queue.publish(messages[0]) if count == 1 else queue.publish_all(messages):
            durable = True
    if refused and channel.transaction is not None:
        channel.transaction.refused = True
    ledger = channel.confirms
    if ledger is None:
        return
    if refused or not durable:
        ledger.settle(count, refused=refused)
        return
    batches = channel.connection.broker.batches
    if ledger.wait_for(batches.current.number, count):
        batches.wait(ledger)


def _miss(channel: Channel, message: Message, *, mandatory: bool) -> None:
    """A message has reached no queue."""
    if not mandatory:
        channel.counters.drop_unroutable += 1
        return
    channel.counters.return_unroutable += 1
    connection = channel.connection
    connection.output.send(content_frames.returned(channel.number, message, connection.frame_max))


def _enqueue_at_commit(channel: Channel, message: Message, route: CachedRoute, queues: tuple[Queue, ...]) -> int:
    """To the queues that have these names by then; to delay it the exchange has to be the same one. How many, or 1."""
    named = channel.vhost.queues
    found = (queue if isinstance(queue, DelayQueue) else named.get(queue.name) for queue in queues)
    there = tuple(queue for queue in found if queue is not None and not queue.deleted)
    _enqueue(channel, message, route, there)
    return len(there) or 1


def check_room(channel: Channel, size_bytes: int, what: str) -> None:
    """Raise ChannelException 311 (0-9-1: "content larger than the server could accept at the present time").

    That is for what is too large for the room on the disk, if it is LARGE_BYTES or more: what is smaller is held when
    the disk's alarm is raised, and would not fill what is free until then.
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
