"""The basic class, consuming side: ack, nack, reject, recover."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.entities.messages.message import Entry
from broker.session.channel import deliveries
from broker.session.channel.channel import Channel
from broker.session.methods.stream_methods import check_return
from broker.wire import methods
from broker.wire.amqp_errors import ConnectionException
from broker.wire.constants import ReplyCode

Settlement = Callable[[list[Entry]], None]


def ack(channel: Channel, method: methods.BasicAck) -> None:
    """basic.ack."""
    settle(channel, method.delivery_tag, deliveries.acknowledge, multiple=method.multiple)


def nack(channel: Channel, method: methods.BasicNack) -> None:
    """basic.nack, RabbitMQ's reject of several."""
    check_return(channel, method.delivery_tag, multiple=method.multiple)
    how = deliveries.requeue if method.requeue else deliveries.reject
    settle(channel, method.delivery_tag, how, multiple=method.multiple)


def reject(channel: Channel, method: methods.BasicReject) -> None:
    """basic.reject."""
    check_return(channel, method.delivery_tag, multiple=False)
    settle(channel, method.delivery_tag, deliveries.requeue if method.requeue else deliveries.reject, multiple=False)


def settle(channel: Channel, tag: int, how: Settlement, *, multiple: bool) -> None:
    """Strike out tags and do with their messages what the client asked; on a transactional channel at its commit.

    Raises ChannelException 406 for a tag that is not outstanding.
    """
    entries = channel.deliveries.take(tag, multiple=multiple)
    if channel.transaction is not None:
        channel.transaction.settled.update(entries)
        channel.transaction.settlements.append(partial(how, list(entries.values())))
        return
    how(list(entries.values()))
    if channel.prefetch_all:
        channel.replenish()


def recover(channel: Channel, method: methods.BasicRecover) -> None:
    """basic.recover: everything outstanding on the channel goes back to its queues."""
    _recover(channel, requeue=method.requeue)
    channel.send(methods.BasicRecoverOk())


def recover_async(channel: Channel, method: methods.BasicRecoverAsync) -> None:
    """basic.recover-async, the older form without an answer."""
    _recover(channel, requeue=method.requeue)


def _recover(channel: Channel, *, requeue: bool) -> None:
    if not requeue:
        raise ConnectionException(ReplyCode.NOT_IMPLEMENTED, "requeue=false")
    check_return(channel, 0, multiple=True)
    deliveries.requeue(list(channel.deliveries.take(0, multiple=True).values()))
    if channel.prefetch_all:
        channel.replenish()
