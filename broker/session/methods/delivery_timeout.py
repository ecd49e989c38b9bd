"""Delivery timeouts of quorum queues in RabbitMQ 4.3: to the tenth of a second, and the consumer's alone.

A consumer that has not acknowledged its oldest delivery in time is cancelled; all its deliveries are returned, and do
not count for the delivery limit. Its channel goes on. A client that does not know basic.cancel from the broker, and
whoever used basic.get, has the channel closed.

Each delivery has the timeout that is in force when it is made. A mark has the last tag of a hundredth of that time, so
a consumer keeps a hundred of them at most between two looks.
"""

from __future__ import annotations

import logging
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from broker.entities.arguments.queue_arguments import consumer_timeout
from broker.entities.arguments.queue_types import QUORUM
from broker.session.channel import delivery_tags
from broker.session.channel.channel import withdraw
from broker.session.consumer_timeout import milliseconds
from broker.session.methods.acknowledge import SETTLED_AT_ONCE, requeue_some_at_a_time
from broker.wire.amqp_errors import ChannelException
from broker.wire.constants import ReplyCode

if TYPE_CHECKING:
    from broker.entities.queues.consumer_prefetch import Consumer
    from broker.entities.queues.queue import Queue
    from broker.session.channel.channel import Channel
    from broker.session.channel.packed_deliveries import Taken

log = logging.getLogger("leveret.channel")

MARKS = 100
"""Marks within one timeout."""
LOOKED_AT = 50_000
"""Deliveries of a channel that one look passes, to find the oldest of a consumer: a millisecond."""
TEXT = (
    "delivery acknowledgement on channel {} timed out. Timeout value used: -1 ms. "
    "This timeout value can be configured, see consumers doc guide to learn more"
)
"""RabbitMQ 4.3's own, with its number."""


CANCELLED = "a consumer of queue '{}' is cancelled: it has not acknowledged a delivery in time"


class Mark:
    """Deliveries up to the tag `last`, to be acknowledged by `due`; `until` then others may join them."""

    __slots__ = ("due", "last", "until")

    def __init__(self, last: int, due: int, until: int) -> None:
        self.last, self.due, self.until = last, due, until


class DeliveryTimeout:
    """The deliveries of a channel to one consumer, or by basic.get, that have to be acknowledged in time."""

    __slots__ = ("_channel", "_consumer", "_due", "_marks", "_own")

    def __init__(self, channel: Channel, consumer: Consumer | None) -> None:
        self._channel = channel
        self._consumer = consumer
        self._own = None if consumer is None else consumer_timeout(consumer.arguments)
        self._marks: deque[Mark] = deque()
        self._due = 0
        """Time of the next look; 0: there is none."""

    @property
    def deleted(self) -> bool:
        """True if no look is needed any more: see `Timers`."""
        return self._channel.ended or self._channel.closing or (self._consumer is not None and self._consumer.ended)

    def delivered(self, queue: Queue) -> None:
        """Note that deliveries up to the last tag have been made."""
        timeout = self._timeout(queue)
        if timeout is None:
            return
        now, last = self._channel.connection.broker.clock.now(), self._channel.deliveries.last
        mark = self._marks[-1] if self._marks else None
        if mark is not None and now < mark.until:
            mark.last, mark.due = last, now + timeout
        else:
            self._marks.append(Mark(last, now + timeout, now + timeout // MARKS))
        if not self._due:
            self._look_at(self._marks[0].due)

    def _timeout(self, queue: Queue) -> int | None:
        """Return the timeout in milliseconds: the consumer's, else the queue's, else the settings'; None: none."""
        if self._own is not None:
            return self._own
        of_queue = queue.consumer_timeout
        return (milliseconds(self._channel.connection.settings) or None) if of_queue is None else of_queue

    def _look_at(self, due: int) -> None:
        self._due = due
        self._channel.connection.broker.timers.at(due, self._look, self)

    def _look(self) -> None:
        self._due = 0
        if self.deleted:
            return
        oldest = self._oldest()
        while self._marks and (oldest is None or self._marks[0].last < oldest):
            self._marks.popleft()
        if not self._marks:
            return
        if self._marks[0].due <= self._channel.connection.broker.clock.now():
            self._time_out()
        else:
            self._look_at(self._marks[0].due)

    def _oldest(self) -> int | None:
        """Return the tag of the oldest delivery; None without one, or behind very many of other consumers."""
        consumer = self._consumer
        some = islice(self._channel.deliveries.items(), LOOKED_AT)
        return next(
            (tag for tag, entry in some if entry.consumer is consumer and (consumer or entry.queue.may_time_out)), None
        )

    def _time_out(self) -> None:
        channel, consumer = self._channel, self._consumer
        fields = {"connection": str(channel.connection.peer), "channel": channel.number}
        log.warning("a delivery was not acknowledged in time: connection %s", channel.connection.peer, extra=fields)
        taken = channel.deliveries.take_of(consumer)
        if consumer is None or not channel.connection.knows("consumer_cancel_notify"):
            text = TEXT.format(channel.number)
            self._give_back(taken)
            channel.fail(ChannelException(ReplyCode.PRECONDITION_FAILED, text), 0)
            return
        if (watch := channel.connection.broker.watch) is not None:
            watch.closed(channel.client_name, 0, CANCELLED.format(consumer.queue.name))
        withdraw(channel, consumer)
        self._give_back(taken)

    def _give_back(self, taken: Taken) -> None:
        """Return deliveries, before the channel ends: a closed channel would count as a failure."""
        if len(taken) <= SETTLED_AT_ONCE:
            delivery_tags.requeue(list(taken.values()))
        else:
            requeue_some_at_a_time(self._channel, taken)


def watch(channel: Channel, queue: Queue, consumer: Consumer | None) -> None:
    """Have the deliveries to a consumer, or by basic.get, acknowledged in time, where the personality looks so."""
    wanted = channel.connection.settings.personality.timeouts_cancel and queue.type is QUORUM
    if wanted and consumer not in channel.timeouts and not (consumer is not None and consumer.no_ack):
        channel.timeouts[consumer] = DeliveryTimeout(channel, consumer)
