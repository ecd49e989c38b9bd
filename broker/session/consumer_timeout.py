"""Consumer (delivery acknowledgement) timeout: closes a channel whose oldest delivery is unacknowledged for too long.

It protects from consumers that hang: their messages are requeued, for consumers that work.
The timeout is the consumer's, else the queue's, else that of the settings, as in RabbitMQ 3.13.

Delivering costs nothing for it. Every half minute each channel's last delivery tag is marked with the time:
deliveries up to a mark are at least as old as the mark. So a channel is closed between the timeout and a minute later,
as in RabbitMQ, which looks every minute. As there, only the oldest delivery of a channel is looked at.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from broker.entities.arguments.queue_arguments import consumer_timeout
from broker.entities.messages.message import OriginQueue, QueuedMessage, Receiver
from broker.entities.rehearsal.rehearsal_rules import CONSUMER_TIMEOUT
from broker.wire.amqp_errors import ChannelException
from broker.wire.constants import ReplyCode

if TYPE_CHECKING:
    from broker.session.channel.channel import Channel
    from broker.session.registry import Registry
    from broker.session.session_settings import SessionSettings

log = logging.getLogger("leveret.channel")

LOOK_MILLISECONDS = 30_000

Marks = deque[tuple[int, int]]
"""Last delivery tag and the time at which it was seen, ascending. A timeout of half an hour keeps sixty marks."""


def milliseconds(settings: SessionSettings) -> int:
    """Return the default timeout of the settings; 0: none."""
    return int(settings.consumer_timeout * 1000)


def timeout_of(consumer: Receiver | None, queue: OriginQueue, default: int) -> int:
    """Return the timeout of a delivery in milliseconds; 0: none. The consumer is None after a `basic.get`."""
    return announced_timeout(consumer, queue, default) if queue.may_time_out else 0


def announced_timeout(consumer: Receiver | None, queue: OriginQueue, default: int) -> int:
    """Return the timeout of a consumer's row: RabbitMQ 4.3 shows one for queues that have none, too."""
    said = [] if consumer is None else [consumer_timeout(consumer.arguments)]
    said.append(queue.consumer_timeout)
    return next((timeout for timeout in said if timeout is not None), default)


class Overdue:
    """Finds channels with an overdue delivery, on all connections."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._timers = registry.broker.timers
        self._now = registry.broker.clock.now
        self._began = self._now()
        self._default = milliseconds(registry.settings)
        self._interval = max(1, min(LOOK_MILLISECONDS, self._default // 2 or LOOK_MILLISECONDS))
        self._marks: dict[Channel, Marks] = {}
        self._watching = False

    def watch(self) -> None:
        """Look at all channels at each interval since the start, while there are connections.

        RabbitMQ 4.3 looks at consumers: see `methods.delivery_timeout`.
        """
        if not (self._watching or self._registry.settings.personality.timeouts_cancel):
            self._watching = True
            since = (self._now() - self._began) % self._interval
            self._timers.at(self._now() + self._interval - since, self.look)

    def look(self) -> None:
        """Look at all channels now."""
        self._watching = False
        if self._registry.connections:
            self.watch()
        now = self._now()
        before, self._marks = self._marks, {}
        for connection in self._registry.connections:
            for channel in connection.channels.values():
                if channel.deliveries and not channel.closing:
                    self._marks[channel] = before.get(channel) or deque()
        for channel, marks in self._marks.items():
            self._look_at(channel, marks, now)

    def _look_at(self, channel: Channel, marks: Marks, now: int) -> None:
        oldest, entry = next(channel.deliveries.items())
        while marks and marks[0][0] < oldest:
            marks.popleft()
        timeout = self._timeout(entry)
        if marks and timeout and now - marks[0][1] >= timeout:
            _close(channel, entry, timeout)
        elif not marks or marks[-1][0] < channel.deliveries.last:
            marks.append((channel.deliveries.last, now))

    def _timeout(self, entry: QueuedMessage) -> int:
        return timeout_of(entry.consumer, entry.queue, self._default)


def _close(channel: Channel, entry: QueuedMessage, timeout: int) -> None:
    peer, queue = channel.connection.peer, entry.queue.name
    fields = {"connection": str(peer), "channel": channel.number, "queue": queue}
    words = "a delivery from queue '%s' was not acknowledged: connection %s, %d ms"
    log.warning(words, queue, peer, timeout, extra=fields)
    if (watch := channel.connection.broker.watch) is not None and watch.target.timeouts_cancel:
        watch.note(CONSUMER_TIMEOUT, channel.vhost.name, ("queue", queue), channel.client_name, f"{timeout} ms")
    text = (
        f"delivery acknowledgement on channel {channel.number} timed out. Timeout value used: {timeout} ms. "
        "This timeout value can be configured, see consumers doc guide to learn more"
    )
    channel.fail(ChannelException(ReplyCode.PRECONDITION_FAILED, text), 0)
