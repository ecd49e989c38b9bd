"""Methods of the basic class on a stream, if they differ from those on a queue: mostly refusals."""

from __future__ import annotations

from broker.entities.arguments import stream_arguments
from broker.entities.queues.streams.stream_queue import Stream
from broker.session.channel.channel import Channel
from broker.wire import methods
from broker.wire.amqp_errors import ConnectionException, precondition_failed
from broker.wire.constants import ReplyCode


def check_consume(channel: Channel, stream: Stream, method: methods.BasicConsume) -> None:
    """Refuse a consumer that a stream cannot serve, in RabbitMQ's order. `exclusive` is accepted without effect.

    Raises ChannelException 406 for its arguments or no prefetch, ConnectionException 540 for no-ack or a channel limit.
    """
    where = f"for {stream.where}"
    stream_arguments.start(method.arguments, where)
    older = channel.connection.settings.personality.stream_texts
    if not channel.prefetch:
        named = f"'{stream.where}'" if older else f"stream {stream.where}"
        raise precondition_failed(f"consumer prefetch count is not set for {named}")
    if method.no_ack:
        named = f"stream queues {stream.where}" if older else f"stream {stream.where}"
        text = f"automatic acknowledgement not supported by {named}"
        raise ConnectionException(ReplyCode.NOT_IMPLEMENTED, text)
    if channel.prefetch_all:
        raise ConnectionException(ReplyCode.NOT_IMPLEMENTED, f"{stream.where} does not support global qos")


def check_return(channel: Channel, tag: int, *, multiple: bool) -> None:
    """Refuse to requeue or reject deliveries of a stream: raises ConnectionException 540 if there is one among these.

    Raises ChannelException 406 for an unknown tag.
    """
    if not channel.reads_streams or not channel.connection.settings.personality.stream_returns:
        return
    entries = dict(channel.deliveries.take(tag, multiple=multiple).items())
    channel.deliveries.put_back(entries.items())
    for entry in entries.values():
        if isinstance(entry.queue, Stream):
            entry.queue.refuse_return()
