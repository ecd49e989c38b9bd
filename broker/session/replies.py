"""Direct reply-to: answers that go straight to the channel that asked, through no queue.

The channel consumes from a queue that does not exist and names it in its requests; the broker puts an address
of its own in that name's place. RabbitMQ's extension, one such consumer a channel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.entities.message import Message
from broker.session import content
from broker.session.registry import generated_name
from broker.wire.properties import REPLY_TO

if TYPE_CHECKING:
    from broker.session.channel import Channel


class Replies:
    """Where the answers to one channel's requests go. `address` and `tag` are empty while it expects none."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.address = ""
        self.tag = ""

    def expect(self, tag: str) -> None:
        """Answers are delivered to the consumer `tag` from now on."""
        self.tag, self.address = tag, generated_name(REPLY_TO + ".")
        self._channel.connection.registry.reply_channels[self.address] = self._channel

    def stop(self) -> None:
        """The reply consumer is gone: answers find nobody."""
        self._channel.connection.registry.reply_channels.pop(self.address, None)
        self.address = self.tag = ""

    def deliver(self, message: Message) -> None:
        """Send an answer to the client."""
        channel, prefix = self._channel, content.deliver_prefix(self.tag)
        # As in RabbitMQ an answer uses up no tag: the next delivery has the same one.
        tag, frame_max = channel.deliveries.last + 1, channel.connection.frame_max
        channel.connection.output.send(
            b"".join(content.deliver(channel.number, prefix, tag, False, message, frame_max))
        )
