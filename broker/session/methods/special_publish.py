"""Publishes that are not plain: with properties that the broker acts on, CC or BCC headers, or an exchange that routes
each message by itself.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from broker.entities.arguments.queue_arguments import EXPIRY_MAX_MILLISECONDS
from broker.entities.messages.message import PUBLISHED_DEATHS, BccMessage, Message
from broker.session.channel import firehose
from broker.session.channel.direct_reply import is_address
from broker.wire.amqp_errors import ChannelException
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import TYPE_NAMES, Field, Fields, SoundTable
from broker.wire.properties import REPLY_TO, PropertySummary, decode_properties, encode_header, summarize
from storage.batch import PERSISTENT

if TYPE_CHECKING:
    from broker.entities.queues.queue import Queue
    from broker.session.channel.channel import Channel
    from broker.session.channel.route_cache import CachedRoute


def prepare(
    channel: Channel,
    route: CachedRoute,
    summary: PropertySummary,
    queues: tuple[Queue, ...] | None,
    header: bytes,
    body: bytes,
) -> tuple[Message, tuple[Queue, ...]]:
    """Return the message as it is enqueued, and its queues: `queues`, unless CC or BCC headers add some.

    If `queues` is None the message is routed here. A direct reply is delivered at once. Raises ChannelException as
    RabbitMQ does.
    """
    interceptors = channel.connection.settings.interceptors
    if interceptors.work:
        header = interceptors.intercepted(header, len(body), channel.connection.broker.clock.now())
        summary = summarize(header)
    message = Message(route.route, header, body, PERSISTENT if summary.persistent else 0)
    if not channel.connection.settings.personality.published_deaths and b"x-death" in (summary.headers or b""):
        message.flags |= PUBLISHED_DEATHS
    if summary.delivery_mode not in (None, 1, 2) or summary.expiration is not None or summary.user_id is not None:
        _check(channel, summary, message)
    if summary.priority is not None:
        message.priority = summary.priority
    if summary.reply_to == REPLY_TO:
        _promise_reply(channel, message)
    if summary.headers is not None and b"CC" in summary.headers:
        return _route_copies(channel, route, message, summary)
    if queues is None:
        queues = _route(channel, route, message, summary)
    if not queues and not route.name:
        _reply(channel, route.key, message)
    return message, queues


def _route(channel: Channel, route: CachedRoute, message: Message, summary: PropertySummary) -> tuple[Queue, ...]:
    assert route.exchange is not None, "it has been resolved"
    headers = _headers(summary)
    queues = channel.vhost.route(route.exchange, (route.key,), headers, message).queues
    if channel.vhost.traced:
        firehose.published(channel.origin, message, (route.key,), queues)
    return queues


def _headers(summary: PropertySummary) -> Fields:
    return {} if summary.headers is None else SoundTable(summary.headers)


def _route_copies(
    channel: Channel, route: CachedRoute, message: Message, summary: PropertySummary
) -> tuple[Message, tuple[Queue, ...]]:
    """Return the message without its BCC header, and the queues that it reaches by all its keys."""
    assert route.exchange is not None, "it has been resolved"
    headers = _headers(summary)
    copies, blind = _copied_to(headers, "CC"), _copied_to(headers, "BCC")
    keys = [route.key, *copies, *blind]
    if headers.get("BCC") is not None:
        message = BccMessage.of(message, _without_blind_copies(message), blind)
    for key in sorted(set(keys)) if not route.name else ():
        _reply(channel, key, message)
    queues = channel.vhost.route(route.exchange, keys, headers, message).queues
    if channel.vhost.traced:
        firehose.published(channel.origin, message, keys, queues)
    return message, queues


# Properties


def _check(channel: Channel, summary: PropertySummary, message: Message) -> None:
    user = channel.connection.user
    if summary.user_id is not None and summary.user_id != user and not channel.access.impersonator:
        text = f"user_id property set to '{summary.user_id}' but authenticated user was '{user}'"
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, text)
    if summary.delivery_mode not in (None, 1, 2) and channel.connection.settings.personality.delivery_modes:
        raise _invalid_message(f"{{delivery_mode_unknown,{summary.delivery_mode}}}")
    message.expiration = summary.milliseconds
    if summary.milliseconds is None and summary.expiration is not None:
        message.expiration = milliseconds(summary.expiration)


def milliseconds(expiration: str) -> int:
    """Parse the property `expiration`. Raises ChannelException 406 with the text of RabbitMQ's parser."""
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


def _copied_to(headers: Fields, name: str) -> list[str]:
    """Return the routing keys in the CC or BCC header. Elements that are not strings are ignored."""
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


# Direct reply-to: a request names a pseudo-queue, and the reply goes straight to the requesting channel


def _promise_reply(channel: Channel, message: Message) -> None:
    if not channel.direct_reply.address:
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, "fast reply consumer does not exist")
    changes: dict[str, Any] = {"reply_to": channel.direct_reply.address}
    message.header = encode_header(len(message.body), decode_properties(message.header)._replace(**changes))


def _reply(channel: Channel, key: str, message: Message) -> None:
    """Deliver a direct reply; before 4.2 at once even in a transaction. It goes to no queue: see `taken_as_reply`."""
    if not key.startswith(REPLY_TO + "."):
        return
    if channel.transaction is not None and channel.connection.settings.personality.volatile_replies:
        channel.transaction.replies.append(partial(_deliver_reply, channel, key, message))
    else:
        _deliver_reply(channel, key, message)


def _deliver_reply(channel: Channel, key: str, message: Message) -> None:
    """Deliver a direct reply if its channel is still there."""
    asking = channel.connection.reply_channels.get(key)
    if asking is not None and asking.vhost is channel.vhost:
        asking.direct_reply.deliver(asking, message)


def taken_as_reply(channel: Channel, route: CachedRoute) -> bool:
    """Return whether a publish is a direct reply that counts as routed, as in RabbitMQ from 4.2 on.

    It does if its key can be an address, whether that is in use or not.
    """
    return not route.name and is_address(route.key) and not channel.connection.settings.personality.returned_replies


def _invalid_message(problem: str) -> ChannelException:
    return ChannelException(ReplyCode.PRECONDITION_FAILED, f"invalid message: {problem}")
