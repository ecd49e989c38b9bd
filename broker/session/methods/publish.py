"""basic.publish, the method everything is about.

A client publishes with the same arguments again and again. Their bytes are the key to a `Target`, which knows
the parsed arguments, the exchange and - unless the message itself has a say - the queues. Of the properties
only what the broker must know is read, once per distinct list of them; the rest stays bytes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from broker.entities.arguments.queue_arguments import EXPIRY_MAX_MILLISECONDS
from broker.entities.messages.message import BlindlyCopied, Message
from broker.entities.queues.delay_queue import DelayQueue
from broker.entities.queues.queue import Queue
from broker.session import firehose
from broker.session.channel.channel import HELD_OVERHEAD_BYTES, Channel
from broker.session.channel.permissions import HEADER_BYTES_MAX, Target
from broker.session.output import content_frames
from broker.wire.amqp_errors import ChannelException, ConnectionException, DecodeError
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import TYPE_NAMES, Field, Table, decode_table
from broker.wire.frames import cannot_decode
from broker.wire.methods import BasicPublish, decode_basic_publish
from broker.wire.properties import REPLY_TO, PropertySummary, decode_properties, encode_header, summarize
from storage.batch import PERSISTENT

_BASIC_PUBLISH = BasicPublish.KEY.to_bytes(4, "big")


def publish(channel: Channel, arguments: bytes, header: bytes, body: bytes) -> int:
    """Handle basic.publish; how many copies it made.

    `arguments` are the method's, undecoded. Raises ChannelException and ConnectionException as RabbitMQ does.
    """
    if channel.connection.broker.alarms.raised:
        channel.hold_publish(partial(publish, channel, arguments, header, body), len(body))
        return 1
    access = channel.access
    target = access.targets.get(arguments) or _parse(channel, arguments)
    exchange = target.exchange
    if exchange is None or exchange.version != target.version or access.cache_epoch.number != target.cache_epoch:
        _resolve(channel, target)
    if len(body) > channel.connection.settings.message_bytes_max:
        raise _too_large(channel, body)
    summary = target.summary
    if summary is None or header != target.header:  # the same header, as a rule, save for the size of the body in it
        summary = summarize_for(target, header)
    message = Message(target.route, header, body, PERSISTENT if summary.persistent else 0)
    queues = target.queues
    if summary.delivery_mode not in (None, 1, 2) or summary.expiration is not None or summary.user_id is not None:
        _check(channel, summary, message)
    if summary.priority is not None:
        message.priority = summary.priority
    if summary.reply_to == REPLY_TO:
        _promise_reply(channel, message)
    if summary.headers is not None and b"CC" in summary.headers:
        message, queues = _route_copies(channel, target, message, summary)
    elif queues is None:
        if target.routed:
            queues = _route(channel, target, message, summary)
        else:
            queues = by_name(channel, target) or _reply(channel, target.key, message)
    if channel.transaction is not None:
        size = len(header) + len(body) + HELD_OVERHEAD_BYTES
        channel.transaction.bytes += size
        channel.transaction.publishes.append(partial(_enqueue_at_commit, channel, target, message, queues))
        channel.connection.count_incomplete(size)
        return 1
    return _enqueue(channel, target, message, queues)


def _parse(channel: Channel, arguments: bytes) -> Target:
    try:
        method = decode_basic_publish(_BASIC_PUBLISH + arguments)
    except DecodeError:
        raise cannot_decode(_BASIC_PUBLISH + arguments) from None
    if method.immediate:
        raise ConnectionException(ReplyCode.NOT_IMPLEMENTED, "immediate=true")
    target = Target(method.exchange, method.routing_key, mandatory=method.mandatory, route=arguments[2:-1])
    channel.access.remember(arguments, target)
    return target


def summarize_for(target: Target, header: bytes) -> PropertySummary:
    """What a content header says; the target remembers it for the next publish.

    Raises ConnectionException when the header is broken.
    """
    try:
        summary = summarize(header)
    except DecodeError as error:
        raise ConnectionException(ReplyCode.INTERNAL_ERROR, "") from error
    short = len(header) <= HEADER_BYTES_MAX
    target.header, target.summary = (header, summary) if short else (b"", None)
    return summary


def _resolve(channel: Channel, target: Target) -> None:
    access = channel.access
    access.write_exchange(target.name)
    exchange = channel.vhost.exchange(target.name)
    if exchange.internal:
        where = f"internal exchange '{target.name}' in vhost '{channel.vhost.name}'"
        raise ChannelException(ReplyCode.ACCESS_REFUSED, f"cannot publish to {where}")
    access.topic(exchange, "write", target.key)
    target.queues = None
    if target.name:  # queues come and go by name on the default exchange: looked up each time
        routes = channel.vhost.route(exchange, (target.key,), {})
        target.queues = routes.queues if routes.lasting and not channel.vhost.traced else None
    target.routed = bool(target.name) or channel.vhost.traced
    target.exchange, target.version, target.cache_epoch = exchange, exchange.version, access.cache_epoch.number


def by_name(channel: Channel, target: Target) -> tuple[Queue, ...]:
    """Where the default exchange sends a message now."""
    queue = channel.vhost.queues.get(target.key)
    return () if queue is None else (queue,)


def _route(channel: Channel, target: Target, message: Message, summary: PropertySummary) -> tuple[Queue, ...]:
    assert target.exchange is not None, "routes are asked of a resolved target"
    headers: Table = decode_table(summary.headers, 0)[0] if summary.headers is not None else {}
    queues = channel.vhost.route(target.exchange, (target.key,), headers, message).queues
    if channel.vhost.traced:
        firehose.published(channel, message, (target.key,), queues)
    return queues or (() if target.name else _reply(channel, target.key, message))


def _route_copies(
    channel: Channel, target: Target, message: Message, summary: PropertySummary
) -> tuple[Message, tuple[Queue, ...]]:
    """The message without its BCC header, and the queues that it reaches by all its keys."""
    assert target.exchange is not None, "routes are asked of a resolved target"
    headers: Table = decode_table(summary.headers, 0)[0] if summary.headers is not None else {}
    copies, blind = _copied_to(headers, "CC"), _copied_to(headers, "BCC")
    keys = [target.key, *copies, *blind]
    if "BCC" in headers:
        message = BlindlyCopied.of(message, _without_blind_copies(message), blind)
    for key in sorted(set(keys)) if not target.name else ():
        _reply(channel, key, message)
    queues = channel.vhost.route(target.exchange, keys, headers, message).queues
    if channel.vhost.traced:
        firehose.published(channel, message, keys, queues)
    return message, queues


def _enqueue_at_commit(channel: Channel, target: Target, message: Message, queues: tuple[Queue, ...]) -> None:
    """To the queues that have these names by then; to delay it the exchange has to be the same one."""
    named = channel.vhost.queues
    found = (queue if isinstance(queue, DelayQueue) else named.get(queue.name) for queue in queues)
    _enqueue(channel, target, message, tuple(queue for queue in found if queue is not None and not queue.deleted))


def _enqueue(channel: Channel, target: Target, message: Message, queues: tuple[Queue, ...]) -> int:
    ledger = channel.confirms
    if channel.recorded is not None:
        channel.recorded.published((message,), returned=not queues and target.mandatory)
    if not queues and target.mandatory:
        channel.connection.output.send(content_frames.returned(channel.number, message, channel.connection.frame_max))
    durable = refused = False
    if len(queues) > 1:
        channel.vhost.share_body(message, queues)
    for queue in queues:
        if queue.limits.on_length and queue.limits.refuses(message):
            refused = True
            queue.limits.turn_away(message)
            if channel.transaction is not None:
                channel.transaction.refused = True
        elif queue.publish(message):
            durable = True
    if ledger is not None:
        if durable and not refused:
            channel.confirm_later(ledger)
        else:
            ledger.settle(refused=refused)
    return len(queues) or 1


# What the properties ask for


def _check(channel: Channel, summary: PropertySummary, message: Message) -> None:
    user = channel.connection.user
    if summary.user_id is not None and summary.user_id != user and not channel.access.impersonator:
        text = f"user_id property set to '{summary.user_id}' but authenticated user was '{user}'"
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, text)
    if summary.delivery_mode not in (None, 1, 2):
        raise _invalid_message(f"{{delivery_mode_unknown,{summary.delivery_mode}}}")
    if summary.expiration is not None:
        message.expiration = milliseconds(summary.expiration)


def milliseconds(expiration: str) -> int:
    """The time to live a publisher wrote as text. Raises ChannelException 406 in the words of RabbitMQ's parser."""
    sign = expiration[:1] if expiration[:1] in ("-", "+") else ""
    digits = expiration[len(sign) :]
    number = digits[: len(digits) - len(digits.lstrip("0123456789"))]
    rest = digits[len(number) :]
    if not number:
        problem = "no_integer"
    elif rest:
        problem = f'{{leftover_string,"{rest}"}}'
    elif sign == "-" and int(number):
        problem = f"{{value_negative,-{int(number)}}}"
    elif int(number) > EXPIRY_MAX_MILLISECONDS:
        problem = f"{{value_too_large,{int(number)}}}"
    else:
        return int(number)
    raise ChannelException(ReplyCode.PRECONDITION_FAILED, f"invalid expiration '{expiration}': {problem}")


def _copied_to(headers: Table, name: str) -> list[str]:
    """The further routing keys a sender named in the CC or BCC header; what is no text in it does not count."""
    field = headers.get(name)
    if field is None:
        return []
    if field.kind != "A":
        raise _invalid_message(f'{{unacceptable_type_in_header,"{name}",{TYPE_NAMES[field.kind]}}}')
    keys: list[Field] = field.value
    return [key.value.decode("utf-8", "surrogateescape") for key in keys if key.kind == "S"]


def _without_blind_copies(message: Message) -> bytes:
    properties = decode_properties(message.header)
    headers = {name: field for name, field in (properties.headers or {}).items() if name != "BCC"}
    return encode_header(len(message.body), properties._replace(headers=headers))


# Direct reply-to: a request names a queue that is none, and the answer goes straight to the asking channel


def _promise_reply(channel: Channel, message: Message) -> None:
    if not channel.direct_reply.address:
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, "fast reply consumer does not exist")
    changes: dict[str, Any] = {"reply_to": channel.direct_reply.address}
    message.header = encode_header(len(message.body), decode_properties(message.header)._replace(**changes))


def _reply(channel: Channel, key: str, message: Message) -> tuple[Queue, ...]:
    """Deliver an answer, at once even in a transaction. It goes to no queue: a mandatory one is returned as well."""
    if key.startswith(REPLY_TO + "."):
        asking = channel.connection.registry.reply_channels.get(key)
        if asking is not None and asking.vhost is channel.vhost:
            asking.direct_reply.deliver(message)
    return ()


def _invalid_message(problem: str) -> ChannelException:
    return ChannelException(ReplyCode.PRECONDITION_FAILED, f"invalid message: {problem}")


def _too_large(channel: Channel, body: bytes) -> ChannelException:
    limit = channel.connection.settings.message_bytes_max
    text = f"message size {len(body)} is larger than configured max size {limit}"
    return ChannelException(ReplyCode.PRECONDITION_FAILED, text)
