"""What exchanges and queues may be called."""

from __future__ import annotations

from broker.wire.amqp_errors import ChannelException
from broker.wire.constants import ReplyCode

RESERVED = "amq."


def stripped(name: str) -> str:
    """A name as RabbitMQ reads it in declare and delete: without line breaks."""
    return name.replace("\r", "").replace("\n", "")


def not_reserved(kind: str, name: str) -> None:
    """Raises ChannelException 403 for a new "queue" or "exchange" with the broker's own prefix."""
    if name.startswith(RESERVED):
        text = f"{kind} name '{name}' contains reserved prefix 'amq.*'"
        raise ChannelException(ReplyCode.ACCESS_REFUSED, text)


def not_default_exchange(name: str) -> None:
    """Raises ChannelException 403 for what cannot be done to the default exchange."""
    if not name:
        raise ChannelException(ReplyCode.ACCESS_REFUSED, "operation not permitted on the default exchange")


def not_system_exchange(name: str, vhost: str) -> None:
    """Raises ChannelException 403 for the deletion of a pre-declared exchange."""
    if name.startswith(RESERVED):
        text = f"deletion of system exchange '{name}' in vhost '{vhost}' not allowed"
        raise ChannelException(ReplyCode.ACCESS_REFUSED, text)
