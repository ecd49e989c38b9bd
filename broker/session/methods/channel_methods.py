"""The channel class, and access.request of older clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.entities.node.user_limits import MAX_CHANNELS
from broker.session.channel.channel import Channel, end, release
from broker.session.channel.channel_event_messages import ChannelEventMessages
from broker.session.channel.channel_recording import ChannelRecorder
from broker.session.channel.requeueing import leave_queues
from broker.wire import methods
from broker.wire.amqp_errors import ConnectionException
from broker.wire.constants import ReplyCode

if TYPE_CHECKING:
    from broker.session.connection import Connection


def open_first(connection: Connection, number: int) -> None:
    """channel.open. As in RabbitMQ channel_max limits the number of open channels, not the channel numbers."""
    limit = connection.channel_max
    if len(connection.channels) >= limit:
        text = (
            f"number of channels opened ({len(connection.channels)}) has reached the negotiated channel_max ({limit})"
        )
        raise ConnectionException(ReplyCode.NOT_ALLOWED, text)
    user, registry = connection.user, connection.registry
    user_limit = connection.broker.user_limits.user_reached(user, MAX_CHANNELS, lambda: registry.count_channels(user))
    if user_limit is not None:
        shown = f"{user_limit}" if connection.settings.personality.bare_limits else f"({user_limit})"
        text = f"number of channels opened for user '{user}' has reached the maximum allowed user limit of {shown}"
        raise ConnectionException(ReplyCode.NOT_ALLOWED, text)
    recorder, events = _recorder(connection, number), _events(connection, number)
    channel = connection.channels[number] = Channel(connection, number, recorder, events)
    channel.send(methods.ChannelOpenOk())


def _recorder(connection: Connection, number: int) -> ChannelRecorder | None:
    recorder, stamps = connection.broker.recorder, connection.settings.stamp_message_ids
    if recorder is None:
        return None
    return ChannelRecorder(recorder, connection.vhost_name, str(connection.peer), number, stamps=stamps)


def _events(connection: Connection, number: int) -> ChannelEventMessages | None:
    exchange = connection.broker.event_exchange
    if exchange is None or connection.direct:
        return None
    return ChannelEventMessages(
        exchange, connection.number, str(connection.peer), connection.user, connection.vhost_name, number
    )


def open_again(channel: Channel, method: methods.ChannelOpen) -> None:
    """channel.open on an open channel."""
    raise ConnectionException(ReplyCode.CHANNEL_ERROR, "second 'channel.open' seen")


def flow(channel: Channel, method: methods.ChannelFlow) -> None:
    """channel.flow: active=false is not implemented, as in RabbitMQ, where basic.qos limits deliveries."""
    if not method.active:
        raise ConnectionException(ReplyCode.NOT_IMPLEMENTED, "active=false")
    channel.send(methods.ChannelFlowOk(True))


def close(channel: Channel, method: methods.ChannelClose) -> None:
    """channel.close: answered once unacknowledged messages are requeued."""

    def released() -> None:
        _leave(channel)
        channel.send(methods.ChannelCloseOk())

    release(channel, released)


def close_ok(channel: Channel, method: methods.ChannelCloseOk) -> None:
    """channel.close-ok: the number may be opened again."""
    if not channel.closing:
        raise ConnectionException(ReplyCode.COMMAND_INVALID, "unimplemented method")
    release(channel, lambda: _leave(channel))


def _leave(channel: Channel) -> None:
    end(channel)
    leave_queues(channel)
    del channel.connection.channels[channel.number]


def access_request(channel: Channel, method: methods.AccessRequest) -> None:
    """access.request, from clients that speak 0-9: granted, permissions are checked elsewhere."""
    channel.send(methods.AccessRequestOk(1))
