"""The basic class, consuming side: ack, nack, reject, recover."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from broker.entities.messages.message import QueuedMessage
from broker.entities.queues.queue_background_work import RETURN_BYTES
from broker.entities.scheduling.future import Future
from broker.session.channel import delivery_tags
from broker.session.channel.channel import Action, Channel
from broker.session.channel.packed_deliveries import Taken
from broker.session.channel.requeueing import Requeueing, leave_queues
from broker.session.channel.transaction_contents import Settlement
from broker.session.methods.stream_methods import check_return
from broker.wire import methods
from broker.wire.amqp_errors import ConnectionException
from broker.wire.constants import ReplyCode

How = Callable[[list[QueuedMessage]], None]

SETTLED_AT_ONCE = 1024
"""Deliveries of one frame that are settled in one step."""


def ack(channel: Channel, method: methods.BasicAck) -> None:
    """basic.ack."""
    settle(channel, method.delivery_tag, partial(acknowledge, channel), multiple=method.multiple)


def acknowledge(channel: Channel, entries: Sequence[QueuedMessage]) -> None:
    """Settle acknowledged messages and count them."""
    channel.counters.ack += len(entries)
    if channel.pairs is not None:
        channel.pairs.acknowledged(entry.queue.name for entry in entries)
    delivery_tags.acknowledge(entries)


def nack(channel: Channel, method: methods.BasicNack) -> None:
    """basic.nack, RabbitMQ's reject with `multiple`."""
    check_return(channel, method.delivery_tag, multiple=method.multiple)
    how = delivery_tags.requeue if method.requeue else delivery_tags.reject
    settle(channel, method.delivery_tag, how, multiple=method.multiple)


def reject(channel: Channel, method: methods.BasicReject) -> None:
    """basic.reject."""
    check_return(channel, method.delivery_tag, multiple=False)
    how = delivery_tags.requeue_rejected if method.requeue else delivery_tags.reject
    settle(channel, method.delivery_tag, how, multiple=False)


def reject_each(channel: Channel, tags: Iterable[int]) -> None:
    """Reject a few messages without requeueing, one basic.reject for each.

    Raises ChannelException 406 at the first unknown tag; the messages before it are rejected.
    """
    entries: list[QueuedMessage] = []
    try:
        channel.deliveries.take_each(tags, entries)
    finally:
        delivery_tags.reject(entries)
        if entries and channel.prefetch_all:
            channel.replenish(settled=True)


def settle(channel: Channel, tag: int, how: How, *, multiple: bool) -> None:
    """Settle the deliveries with this tag, or up to it, by the function `how`; in tx mode at the commit.

    Raises ChannelException 406 for an unknown tag.
    """
    taken = channel.deliveries.take(tag, multiple=multiple)
    if channel.transaction is not None:
        entries = dict(taken.items())
        channel.transaction.settled.update(entries)
        channel.transaction.settlements.append(Settlement(how, Taken(entries)))
    elif len(taken) <= SETTLED_AT_ONCE:
        how(list(taken.values()))
        _replenish(channel)
    elif how is delivery_tags.requeue:
        channel.when(requeue_some_at_a_time(channel, taken), lambda _: _replenish(channel))
    else:
        channel.when(_settle_some_at_a_time(channel, Settlement(how, taken)), lambda _: None)


def _replenish(channel: Channel) -> None:
    if channel.prefetch_all:
        channel.replenish(settled=True)


def _settle_some_at_a_time(channel: Channel, settlement: Settlement) -> Future[None]:
    """Settle many deliveries, some in each turn and batch, so that other clients' confirms do not wait long.

    While the disk is full the work does not wait for it: settlements are what frees space.
    """
    broker = channel.connection.broker
    channel.settling.append(settlement.entries)

    def steps() -> Iterator[int]:
        try:
            while settlement.entries:
                yield RETURN_BYTES * settlement.settle(SETTLED_AT_ONCE)
            _replenish(channel)
        finally:
            channel.settling.remove(settlement.entries)
            leave_queues(channel)

    return broker.background_work.begin(steps(), lambda: broker.batches.crowded and not broker.batches.disk_full)


def requeue_some_at_a_time(channel: Channel, taken: Taken) -> Future[None]:
    """Requeue deliveries, some in each turn. It writes nothing, so it never waits for the disk."""
    return channel.connection.broker.background_work.begin(Requeueing(channel, taken).steps())


def recover(channel: Channel, method: methods.BasicRecover) -> None:
    """basic.recover: requeues all unacknowledged messages of the channel."""
    _recover(channel, method, lambda: channel.send(methods.BasicRecoverOk()))


def recover_async(channel: Channel, method: methods.BasicRecoverAsync) -> None:
    """basic.recover-async: the deprecated form without an answer."""
    _recover(channel, method, lambda: None)


def _recover(channel: Channel, method: methods.BasicRecover | methods.BasicRecoverAsync, then: Action) -> None:
    if not method.requeue:
        raise ConnectionException(ReplyCode.NOT_IMPLEMENTED, "requeue=false")
    check_return(channel, 0, multiple=True)

    def recovered(_: None) -> None:
        if channel.prefetch_all:
            channel.replenish()
        then()

    channel.when(requeue_some_at_a_time(channel, channel.deliveries.take(0, multiple=True)), recovered)
