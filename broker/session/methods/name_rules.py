"""Rules for names of exchanges and queues."""

from __future__ import annotations

from broker.wire.amqp_errors import ChannelException
from broker.wire.constants import ReplyCode

RESERVED = "amq."


def stripped(name: str) -> str:
    """Return a name without line breaks, as RabbitMQ reads it in declare and delete."""
    return name.replace("\r", "").replace("\n", "")


def not_reserved(kind: str, name: str) -> None:
    """Raise ChannelException 403 for a new "queue" or "exchange" with the prefix amq."""
    if name.startswith(RESERVED):
        text = f"{kind} name '{name}' contains reserved prefix 'amq.*'"
        raise ChannelException(ReplyCode.ACCESS_REFUSED, text)


def not_default_exchange(name: str) -> None:
    """Raise ChannelException 403 for an operation that the default exchange does not permit."""
    if not name:
        raise ChannelException(ReplyCode.ACCESS_REFUSED, "operation not permitted on the default exchange")


def not_system_exchange(name: str, vhost: str) -> None:
    """Raise ChannelException 403 for the deletion of a pre-declared exchange."""
    if name.startswith(RESERVED):
        text = f"deletion of system exchange '{name}' in vhost '{vhost}' not allowed"
        raise ChannelException(ReplyCode.ACCESS_REFUSED, text)
