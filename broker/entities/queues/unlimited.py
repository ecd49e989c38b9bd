"""The interface of a queue's limits: `Unlimited`, also the limits of queues that have none and of deleted queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.entities.arguments.queue_arguments import QueueArguments
    from broker.entities.messages.message import Message


class Unlimited:
    """The interface of limits, and the limits of a queue that has none: nothing expires, nothing is refused.

    `timed`: some message may have a time to live; otherwise expired messages are not looked for. `expiring`: more have
    expired at the head than one step removes, and nothing is delivered until they are gone. `on_time`, `on_length`: the
    queue has a time to live, or a limit on messages or bytes. Publishing reads these two before it calls a method.
    `publishers_only`: messages that no client publishes are never refused.
    """

    timed = False
    expiring = False
    on_time = False
    on_length = False
    publishers_only = False

    def set(self, arguments: QueueArguments) -> None:
        """Apply other limits from now on. Messages keep the expiry time that they were given at their publish."""

    def expires_at(self, message: Message, now: int = 0) -> int:
        """Return when a message published now expires, in milliseconds since the epoch; 0: never.

        `now`: the current time if the caller has it, else 0.
        """
        return 0

    def refuses(self, message: Message) -> bool:
        """Return whether the queue refuses a message because it is full."""
        return False

    def turn_away(self, message: Message) -> None:
        """Drop a refused message, or dead-letter it with overflow reject-publish-dlx."""

    def drop_excess(self) -> None:
        """Deliver to consumers with credit, then drop the oldest messages that exceed the limit."""

    def drop_excess_of_returned(self) -> None:
        """Drop the oldest messages if returned ones exceed the limit, before any delivery, as in RabbitMQ."""

    def moment(self) -> int:
        """Return the time up to which expired messages are not delivered; 0 if nothing expires."""
        return 0

    def expire(self, *, strictly: bool = False) -> None:
        """Remove expired messages at the head; `strictly`: only those that `moment` does not allow to be delivered."""

    def watch(self) -> None:
        """Set a timer for the expiry of the message now at the head."""

    def remove_some(self) -> int:
        """Do one step of a removal that takes several; return its size in bytes, 0 when nothing is left."""
        return 0

    def resume(self) -> None:
        """Expire and drop what has become due while the broker was stopped."""

    def over(self, messages: int = 0, size_bytes: int = 0) -> bool:
        """Return whether the queue would exceed its length limits with this much more."""
        return False


GONE = Unlimited()
"""The limits of every deleted queue: they refer to no queue."""
