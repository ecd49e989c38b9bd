"""What each channel does with each exchange and queue, and each exchange with each queue: for rates_mode detailed only.

A pair is known by the names of its two ends, and kept by one of them: a channel has its own pairs, a queue those with
exchanges. So pairs go when that end goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from broker.entities.statistics.counters import ChannelCounters, QueueCounters

Pairs = dict[str, ChannelCounters]
"""Counters by the name of the other end."""


class RoutedQueue(Protocol):
    """A queue that a message was routed to."""

    counters: QueueCounters


class ChannelPairs:
    """What one channel has published to exchanges, and was given of queues. Confirms are not told apart."""

    __slots__ = ("deliveries", "publishes")

    def __init__(self) -> None:
        self.publishes: Pairs = {}
        self.deliveries: Pairs = {}

    def published(self, exchange: str, queues: Iterable[RoutedQueue], messages: int, *, mandatory: bool) -> None:
        """Messages were published to an exchange, and reached these queues."""
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
        """A consumer was given messages of a queue."""
        own = of(self.deliveries, queue)
        if no_ack:
            own.deliver_no_ack += messages
        else:
            own.deliver += messages
        own.redeliver += redelivered

    def got(self, queue: str, *, no_ack: bool, redelivered: bool) -> None:
        """basic.get has found a message in a queue."""
        own = of(self.deliveries, queue)
        if no_ack:
            own.get_no_ack += 1
        else:
            own.get += 1
        own.redeliver += redelivered

    def got_nothing(self, queue: str) -> None:
        """basic.get has found none."""
        of(self.deliveries, queue).get_empty += 1

    def acknowledged(self, queues: Iterable[str]) -> None:
        """Messages of these queues were acknowledged, a name for each."""
        for queue, messages in Counter(queues).items():
            of(self.deliveries, queue).ack += messages


def of(pairs: Pairs, name: str) -> ChannelCounters:
    """The counters with another end, which begin when they are asked for."""
    counters = pairs.get(name)
    if counters is None:
        counters = pairs[name] = ChannelCounters()
    return counters
