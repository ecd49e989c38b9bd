"""Addresses of direct replies, which RabbitMQ 4.2 and later treat as volatile queues: what cannot be done with one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.session.channel.direct_reply import is_address
from broker.wire.amqp_errors import ChannelException, ConnectionException
from broker.wire.constants import ReplyCode
from broker.wire.properties import REPLY_TO

if TYPE_CHECKING:
    from broker.session.channel.channel import Channel


def is_volatile(channel: Channel, name: str) -> bool:
    """Return whether a name is that of a volatile queue; before 4.2 there are none."""
    return name.startswith(f"{REPLY_TO}.") and channel.connection.settings.personality.volatile_replies


def check_binding(channel: Channel, name: str) -> None:
    """Refuse to bind or unbind a volatile queue. Raises ChannelException 403."""
    if is_volatile(channel, name):
        text = "cannot bind or unbind to a volatile (direct reply-to) queue"
        raise ChannelException(ReplyCode.ACCESS_REFUSED, text)


def is_taken(channel: Channel, name: str) -> bool:
    """Return whether a name can be an address of a volatile queue that was given out at some time."""
    return is_address(name) and is_volatile(channel, name)


def check_declaration(channel: Channel, name: str) -> None:
    """Refuse to declare the volatile queue of one's own channel, as RabbitMQ does. Raises ChannelException 404."""
    if is_volatile(channel, name) and channel.direct_reply.address == name:
        raise ChannelException(ReplyCode.NOT_FOUND, f"no {_described(channel, name)}")


def check_get(channel: Channel, name: str) -> None:
    """Refuse to get from a volatile queue. Raises ConnectionException 540."""
    if is_taken(channel, name):
        raise ConnectionException(
            ReplyCode.NOT_IMPLEMENTED, f"basic.get not supported by volatile {_described(channel, name)}"
        )


def check_consume(channel: Channel, name: str) -> None:
    """Refuse to consume from a volatile queue by its own name. Raises ChannelException 406."""
    if is_taken(channel, name):
        own = channel.direct_reply.address == name
        problem = "multiple consumers are unsupported for" if own else "only creator channel may consume from"
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, f"{problem} {_described(channel, name)}")


def _described(channel: Channel, name: str) -> str:
    return f"queue '{name}' in vhost '{channel.vhost.name}'"
