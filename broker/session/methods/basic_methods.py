"""The basic class: qos, consume, cancel and get."""

from __future__ import annotations

from typing import Any

from broker.entities.arguments import consumer_arguments, queue_arguments
from broker.entities.arguments.queue_types import QUORUM
from broker.entities.queues.consumer_prefetch import Consumer
from broker.entities.queues.queue import Queue
from broker.entities.queues.streams.stream_queue import Stream
from broker.entities.statistics.counters import count_get, count_get_empty
from broker.session.channel import firehose
from broker.session.channel.channel import Channel, draw_from
from broker.session.generated_names import generated_name
from broker.session.methods import delivery_timeout, rehearsed_methods, reply_addresses
from broker.session.methods.queue_methods import current_queue
from broker.session.methods.stream_methods import check_consume
from broker.session.output import content_frames
from broker.wire import methods
from broker.wire.amqp_errors import ChannelException, ConnectionException
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import Table
from broker.wire.properties import REPLY_TO


def qos(channel: Channel, method: methods.BasicQos) -> None:
    """basic.qos, as in RabbitMQ: `global` limits the channel, else the limit is that of each consumer started later.

    RabbitMQ 4 ignores `global`.
    """
    if method.prefetch_size:
        raise ConnectionException(ReplyCode.NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
    watch = channel.connection.broker.watch
    if method.global_ and watch is not None:
        rehearsed_methods.limits_channel(watch, channel, method.prefetch_count)
    if method.global_ and channel.connection.settings.personality.global_qos:
        channel.prefetch_all = method.prefetch_count
        channel.replenish()
    else:
        channel.prefetch = method.prefetch_count
    channel.send(methods.BasicQosOk())


def consume(channel: Channel, method: methods.BasicConsume) -> None:
    """basic.consume. The answer goes out before the first delivery, which waits for the end of the turn."""
    if method.queue == REPLY_TO:
        _consume_replies(channel, method)
        return
    name = current_queue(channel, method.queue)
    channel.access.read_queue(name)
    tag = _consumer_tag(channel, method)
    reply_addresses.check_consume(channel, name)
    queue = channel.vhost.queue(name, channel.connection)
    _admit(channel, queue, method)
    if (watch := channel.connection.broker.watch) is not None:
        rehearsed_methods.consumes(watch, channel, queue, method, _priority(method.arguments))
    consumer = Consumer(
        queue,
        channel,
        tag,
        no_ack=method.no_ack,
        exclusive=method.exclusive,
        prefetch=channel.prefetch,
        priority=_priority(method.arguments),
        arguments=method.arguments,
    )
    channel.consumers[tag] = consumer
    draw_from(channel, queue)
    channel.prefixes[consumer] = content_frames.deliver_prefix(tag)
    channel.prefixes.move_to_end(consumer, last=False)  # not served yet, so it is the first to be
    if not method.no_wait:
        channel.send(methods.BasicConsumeOk(tag))
    delivery_timeout.watch(channel, queue, consumer)
    if channel.events is not None:
        channel.events.consumer_created(consumer)
    queue.consumers.add(consumer)


def _admit(channel: Channel, queue: Queue, method: methods.BasicConsume) -> None:
    """Check that the queue can serve this consumer. Raises ChannelException 403 or 406, ConnectionException 540."""
    rules = channel.connection.settings.personality.consumer_rules
    where = f"queue '{queue.name}' in vhost '{channel.vhost.name}'"
    consumer_arguments.check(queue.type, where, method.arguments, rules)
    _check_timeout(channel, queue, method.arguments)
    if isinstance(queue, Stream):
        check_consume(channel, queue, method)
        return
    consumer_arguments.check_values(where, method.arguments, rules)
    if queue.type is not QUORUM:
        _check_exclusive(queue, method, channel.vhost.name)
    elif channel.prefetch_all:
        text = f"queue '{queue.name}' in vhost '{channel.vhost.name}' does not support global qos"
        raise ConnectionException(ReplyCode.NOT_IMPLEMENTED, text)


def _check_timeout(channel: Channel, queue: Queue, arguments: Table) -> None:
    """Check the argument x-consumer-timeout as RabbitMQ 4.3: of quorum queues alone, a number from 0 up."""
    personality = channel.connection.settings.personality
    if personality.timeouts_cancel:
        rules = personality.argument_rules
        queue_arguments.check_consumer_timeout(queue.type, queue.name, channel.vhost.name, arguments, rules)


def _consumer_tag(channel: Channel, method: methods.BasicConsume) -> str:
    limit = channel.connection.settings.consumers_per_channel_max
    if limit and len(channel.consumers) >= limit:
        raise ConnectionException(ReplyCode.NOT_ALLOWED, f"reached maximum ({limit}) of consumers per channel")
    if method.consumer_tag in channel.consumers:
        raise ConnectionException(ReplyCode.NOT_ALLOWED, f"attempt to reuse consumer tag '{method.consumer_tag}'")
    return method.consumer_tag or generated_name("amq.ctag-")


def _priority(arguments: Table) -> int:
    field = arguments.get("x-priority")
    value: Any = 0 if field is None else field.value
    return int(value)


def _check_exclusive(queue: Queue, method: methods.BasicConsume, vhost: str) -> None:
    taken = queue.consumers.exclusive or (
        method.exclusive and (len(queue.consumers) or queue.arguments.single_active_consumer)
    )
    if taken:
        text = f"queue '{queue.name}' in vhost '{vhost}' in exclusive use"
        raise ChannelException(ReplyCode.ACCESS_REFUSED, text)


def _consume_replies(channel: Channel, method: methods.BasicConsume) -> None:
    """Start the channel's reply consumer (direct reply-to). Raises ChannelException 406 if it has one."""
    if channel.direct_reply.tag:
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, "reply consumer already set")
    if not method.no_ack:
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, "reply consumer cannot acknowledge")
    tag = _consumer_tag(channel, method)
    channel.direct_reply.expect(channel, tag)
    if not method.no_wait:
        channel.send(methods.BasicConsumeOk(tag))


def cancel(channel: Channel, method: methods.BasicCancel) -> None:
    """basic.cancel: deliveries stay unacknowledged; an unknown tag is no error."""
    consumer = channel.consumers.get(method.consumer_tag)
    if not method.no_wait:
        channel.send(methods.BasicCancelOk(method.consumer_tag))
    if consumer is not None:
        channel.end_consumer(consumer)
    elif method.consumer_tag and method.consumer_tag == channel.direct_reply.tag:
        channel.direct_reply.stop(channel)


def get(channel: Channel, method: methods.BasicGet) -> None:
    """basic.get."""
    name = current_queue(channel, method.queue)
    channel.access.read_queue(name)
    reply_addresses.check_get(channel, name)
    queue = channel.vhost.queue(name, channel.connection)
    if queue.arguments.single_active_consumer and queue.type is QUORUM:
        quoted = channel.connection.settings.personality.quoted_types
        raise _not_to_be_got_from(queue, channel.vhost.name, '<<"quorum">>' if quoted else "quorum")
    queue.deliver_now()  # consumers that wait come first
    if (busy := queue.busy()) is not None:  # requeued messages come first, and expired ones go, over several turns
        channel.when(busy, lambda _: get(channel, method))
        return
    entry = queue.get(channel, no_ack=method.no_ack)
    if entry is None:
        count_get_empty(channel.counters, queue.counters)
        if channel.pairs is not None:
            channel.pairs.got_nothing(queue.name)
        channel.send(methods.BasicGetEmpty())
        return
    count_get(channel.counters, queue.counters, no_ack=method.no_ack, redelivered=entry.redelivered)
    if channel.pairs is not None:
        channel.pairs.got(queue.name, no_ack=method.no_ack, redelivered=entry.redelivered)
    draw_from(channel, queue)
    if channel.vhost.traced:
        firehose.delivered(channel.origin, (entry,))
    ledger, recorder, sent = channel.deliveries, channel.recorder, entry
    if recorder is not None:  # before the ledger gives the tag, which is the next one
        recorder.delivered(queue, "", ledger.last + 1, (entry,), no_ack=method.no_ack)
        (sent,) = recorder.as_sent((entry,))
    message = sent.message
    assert message is not None, "a queue hands over what it has loaded"
    tag = ledger.skip() if method.no_ack else ledger.add(entry)
    if not method.no_ack:
        delivery_timeout.watch(channel, queue, None)
        if None in channel.timeouts and queue.type is QUORUM:
            channel.timeouts[None].delivered(queue)
    frame_max = channel.connection.frame_max
    channel.connection.output.send(
        content_frames.get_ok(channel.number, tag, entry.redelivered, len(queue.ready_messages), message, frame_max)
    )


def _not_to_be_got_from(queue: Queue, vhost: str, type_: str) -> ChannelException:
    text = f"basic.get operations are not supported by {type_} queues with single active consumer"
    return ChannelException(
        ReplyCode.RESOURCE_LOCKED, f"cannot obtain access to locked queue '{queue.name}' in vhost '{vhost}'. {text}"
    )
