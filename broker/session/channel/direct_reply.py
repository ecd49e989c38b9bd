"""Direct reply-to (RabbitMQ's extension): replies go straight to the requesting channel, through no queue.

The channel consumes from the pseudo-queue amq.rabbitmq.reply-to, one consumer per channel, and names it in
`reply-to`; the broker replaces that by an address of the channel.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from broker.entities.messages.message import Message
from broker.session.generated_names import generated_name
from broker.session.output import content_frames
from broker.wire.properties import REPLY_TO

if TYPE_CHECKING:
    from broker.session.channel.channel import Channel


_ADDRESS = re.compile(re.escape(REPLY_TO) + r"\.[A-Za-z0-9_-]{22}")


def is_address(key: str) -> bool:
    """Return whether a routing key has the form of the addresses that are given out."""
    return _ADDRESS.fullmatch(key) is not None


class DirectReplyTo:
    """The reply address of a channel, and the tag of its reply consumer; both are empty while there is none.

    It does not refer to its channel, which would be a cycle: an ended channel is freed at once.
    """

    def __init__(self) -> None:
        self.address = ""
        self.tag = ""

    def expect(self, channel: Channel, tag: str) -> None:
        """Deliver replies to the consumer `tag` of the channel from now on."""
        self.tag, self.address = tag, generated_name(REPLY_TO + ".")
        channel.connection.reply_channels[self.address] = channel

    def stop(self, channel: Channel) -> None:
        """End the reply consumer: later replies are dropped."""
        channel.connection.reply_channels.pop(self.address, None)
        self.address = self.tag = ""

    def deliver(self, channel: Channel, message: Message) -> None:
        """Send a reply to the client; dropped while the client does not read its output."""
        if channel.connection.write_blocked:
            return
        prefix = content_frames.deliver_prefix(self.tag)
        # As in RabbitMQ before 4.2 a reply uses up no delivery tag: the next delivery has the same one.
        counted = channel.connection.settings.personality.volatile_replies
        tag = channel.deliveries.skip() if counted else channel.deliveries.last + 1
        frame_max = channel.connection.frame_max
        channel.connection.output.send(
            b"".join(content_frames.deliver(channel.number, prefix, tag, False, message, frame_max))
        )
