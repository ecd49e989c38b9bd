"""Direct reply-to: answers that go straight to the channel that asked, through no queue.

The channel consumes from a queue that does not exist and names it in its requests; the broker puts an address
of its own in that name's place. RabbitMQ's extension, one such consumer a channel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.entities.messages.message import Message
from broker.session.generated_names import generated_name
from broker.session.output import content_frames
from broker.wire.properties import REPLY_TO

if TYPE_CHECKING:
    from broker.session.channel.channel import Channel


class DirectReplyTo:
    """Where the answers to one channel's requests go. `address` and `tag` are empty while it expects none.

    It does not hold its channel, which would be a cycle: an ended channel is freed at once.
    """

    def __init__(self) -> None:
        self.address = ""
        self.tag = ""

    def expect(self, channel: Channel, tag: str) -> None:
        """Answers are delivered to the consumer `tag` of the channel from now on."""
        self.tag, self.address = tag, generated_name(REPLY_TO + ".")
        channel.connection.reply_channels[self.address] = channel

    def stop(self, channel: Channel) -> None:
        """The reply consumer is gone: later answers are dropped."""
        channel.connection.reply_channels.pop(self.address, None)
        self.address = self.tag = ""

    def deliver(self, channel: Channel, message: Message) -> None:
        """Send an answer to the client; one that does not read its output gets no more."""
        if channel.connection.write_blocked:
            return
        prefix = content_frames.deliver_prefix(self.tag)
        # As in RabbitMQ an answer uses up no tag: the next delivery has the same one.
        tag, frame_max = channel.deliveries.last + 1, channel.connection.frame_max
        channel.connection.output.send(
            b"".join(content_frames.deliver(channel.number, prefix, tag, False, message, frame_max))
        )
