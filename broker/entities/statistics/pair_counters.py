"""Counters by channel and exchange, channel and queue, exchange and queue; for rates_mode detailed only.

A pair belongs to one of its ends and is deleted with it: a channel has its pairs with exchanges and queues, a queue
those with exchanges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from broker.entities.statistics.counters import ChannelCounters, QueueCounters

Pairs = dict[str, ChannelCounters]
"""Counters by the name of the other end of the pair."""


class RoutedQueue(Protocol):
    """A queue that a message was routed to."""

    counters: QueueCounters


class ChannelPairs:
    """A channel's counters by exchange (publishes) and by queue (deliveries). Confirms are not counted by exchange."""

    __slots__ = ("deliveries", "publishes")

    def __init__(self) -> None:
        self.publishes: Pairs = {}
        self.deliveries: Pairs = {}

    def published(self, exchange: str, queues: Iterable[RoutedQueue], messages: int, *, mandatory: bool) -> None:
        """Count messages published to an exchange, and routed to these queues."""
        own, reached = of(self.publishes, exchange), 0
        own.publish += messages
        for reached, queue in enumerate(queues, 1):  # noqa: B007
            if queue.counters.incoming is None:
                queue.counters.incoming = {}
            of(queue.counters.incoming, exchange).publish += messages
        if not reached and mandatory:
            own.return_unroutable += messages
        elif not reached:
            own.drop_unroutable += messages

    def delivered(self, queue: str, messages: int, redelivered: int, *, no_ack: bool) -> None:
        """Count messages of a queue delivered to a consumer."""
        own = of(self.deliveries, queue)
        if no_ack:
            own.deliver_no_ack += messages
        else:
            own.deliver += messages
        own.redeliver += redelivered

    def got(self, queue: str, *, no_ack: bool, redelivered: bool) -> None:
        """Count a basic.get that returned a message of a queue."""
        own = of(self.deliveries, queue)
        if no_ack:
            own.get_no_ack += 1
        else:
            own.get += 1
        own.redeliver += redelivered

    def got_nothing(self, queue: str) -> None:
        """Count a basic.get that found a queue empty."""
        of(self.deliveries, queue).get_empty += 1

    def acknowledged(self, queues: Iterable[str]) -> None:
        """Count acknowledged messages, given by the queue's name of each."""
        for queue, messages in Counter(queues).items():
            of(self.deliveries, queue).ack += messages


def of(pairs: Pairs, name: str) -> ChannelCounters:
    """Return the counters for another end, new ones if there are none."""
    counters = pairs.get(name)
    if counters is None:
        counters = pairs[name] = ChannelCounters()
    return counters
