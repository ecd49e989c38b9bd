"""What is counted of each channel, exchange and queue since it is there: RabbitMQ's message statistics.

Counters are always on. They are bumped where something has happened to messages, once for all messages of a batch or a
run, so they are right whenever an answer is read that says so: the client that has its confirm finds it counted. What
each one means is RabbitMQ's; docs/management.md says so too, with the differences.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

REASONS = ("rejected", "expired", "maxlen", "delivery_limit")
"""Why messages die, as RabbitMQ counts it."""
STRATEGIES = ("at_most_once", "at_least_once", "disabled")
"""How they leave then; `disabled`: the queue has no dead-letter exchange, they are dropped."""


class ChannelValues(NamedTuple):
    """The counters of one channel, or sums of them, at one moment."""

    publish: int = 0
    """Messages published, whether they were routed or not; those of a transaction at its commit."""
    publish_confirmed: int = 0
    """Those of them that are to be confirmed."""
    confirm: int = 0
    """Confirms sent: basic.ack to the publisher, for each message, unroutable ones too. A basic.nack is none."""
    return_unroutable: int = 0
    """Mandatory messages that reached no queue, and were returned."""
    drop_unroutable: int = 0
    """Other messages that reached no queue."""
    routed: int = 0
    """Copies for queues: a message for two queues counts twice."""
    deliver: int = 0
    """Deliveries to consumers that acknowledge."""
    deliver_no_ack: int = 0
    """Deliveries to consumers that do not."""
    get: int = 0
    """basic.get with acknowledgement that found a message."""
    get_no_ack: int = 0
    """The same without acknowledgement."""
    get_empty: int = 0
    """basic.get that found none."""
    redeliver: int = 0
    """Those of the four above that had the redelivered flag."""
    ack: int = 0
    """Messages acknowledged by basic.ack. basic.reject and basic.nack count nowhere."""


_channel_values = attrgetter(*ChannelValues._fields)


class ChannelCounters:
    """What one channel has done: see `ChannelValues`."""

    __slots__ = (*ChannelValues._fields, "history")

    history: Any
    """What was counted before, kept by whatever takes samples. The same of other counters."""

    def __init__(self) -> None:
        self.publish = self.publish_confirmed = self.confirm = 0
        self.return_unroutable = self.drop_unroutable = self.routed = 0
        self.deliver = self.deliver_no_ack = self.redeliver = 0
        self.get = self.get_no_ack = self.get_empty = 0
        self.ack = 0
        self.history = None

    def values(self) -> ChannelValues:
        """What they are now."""
        return ChannelValues(*_channel_values(self))


class ExchangeCounters:
    """What clients have published to one exchange.

    `publish_in`: messages published to it. What another exchange passes on to it counts there, not here.
    `publish_out`: copies of these that were put into queues, by whatever way; a delayed one's when its time has come.
    """

    __slots__ = ("history", "publish_in", "publish_out")

    history: Any

    def __init__(self) -> None:
        self.publish_in = self.publish_out = 0
        self.history = None


class QueueValues(NamedTuple):
    """The counters of one queue at one moment."""

    publish: int = 0
    """Messages that clients have published and that reached it, though it may have refused them. No dead letters."""
    deliver: int = 0
    """This and the next six as in `ChannelValues`."""
    deliver_no_ack: int = 0
    get: int = 0
    get_no_ack: int = 0
    get_empty: int = 0
    redeliver: int = 0
    ack: int = 0
    disk_reads: int = 0
    """Messages read back from the store."""
    disk_writes: int = 0
    """Messages written to the store and synced. One that was acknowledged before its batch was cut never is."""
    rejected: int = 0
    """Messages that died by basic.reject or basic.nack without requeue. This and the next: dropped ones too."""
    expired: int = 0
    """Messages whose time to live was over."""
    maxlen: int = 0
    """Messages that were too many; with overflow reject-publish-dlx those turned away."""
    delivery_limit: int = 0
    """Messages that were delivered oftener than they may."""


_queue_values = attrgetter(*QueueValues._fields)


class QueueTypeTotals:
    """What all queues of one type have done since the start; never falls.

    `dead_lettered` counts by strategy and reason, `dead_letters_confirmed` those sent at least once that arrived.
    """

    __slots__ = (
        "ack",
        "dead_lettered",
        "dead_letters_confirmed",
        "deliver",
        "deliver_no_ack",
        "disk_reads",
        "disk_writes",
        "get",
        "get_empty",
        "get_no_ack",
        "redeliver",
    )

    def __init__(self) -> None:
        self.deliver = self.deliver_no_ack = self.redeliver = 0
        self.get = self.get_no_ack = self.get_empty = 0
        self.ack = 0
        self.disk_reads = self.disk_writes = 0
        self.dead_lettered = {(strategy, reason): 0 for strategy in STRATEGIES for reason in REASONS}
        self.dead_letters_confirmed = 0


class QueueCounters:
    """What one queue has done: see `QueueValues`. Whatever bumps them bumps `of_type`, too, which has no `publish`."""

    __slots__ = (*QueueValues._fields, "history", "incoming", "of_type")

    history: Any
    incoming: dict[str, ChannelCounters] | None
    """What came from each exchange, by its name; None but with rates_mode detailed."""

    def __init__(self, of_type: QueueTypeTotals) -> None:
        self.of_type = of_type
        self.publish = 0
        self.deliver = self.deliver_no_ack = self.redeliver = 0
        self.get = self.get_no_ack = self.get_empty = 0
        self.ack = 0
        self.disk_reads = self.disk_writes = 0
        self.rejected = self.expired = self.maxlen = self.delivery_limit = 0
        self.history = self.incoming = None

    def values(self) -> QueueValues:
        """What they are now."""
        return QueueValues(*_queue_values(self))

    def read(self, messages: int) -> None:
        """So many were read back from the store."""
        self.disk_reads += messages
        self.of_type.disk_reads += messages

    def died(self, messages: int, reason: str, strategy: str) -> None:
        """So many have left without an acknowledgement, for one of `REASONS`, in the way of one of `STRATEGIES`."""
        if reason == "rejected":
            self.rejected += messages
        elif reason == "expired":
            self.expired += messages
        elif reason == "maxlen":
            self.maxlen += messages
        else:
            self.delivery_limit += messages
        self.of_type.dead_lettered[strategy, reason] += messages


def count_get(channel: ChannelCounters, queue: QueueCounters, *, no_ack: bool, redelivered: bool) -> None:
    """A basic.get has found a message."""
    for counters in (channel, queue, queue.of_type):
        if no_ack:
            counters.get_no_ack += 1
        else:
            counters.get += 1
        counters.redeliver += redelivered


def count_get_empty(channel: ChannelCounters, queue: QueueCounters) -> None:
    """A basic.get has found none."""
    for counters in (channel, queue, queue.of_type):
        counters.get_empty += 1


def count_deliveries(
    channel: ChannelCounters, queue: QueueCounters, messages: int, redelivered: int, *, no_ack: bool
) -> None:
    """A consumer is given so many messages, `redelivered` of them with that flag."""
    of_type = queue.of_type
    if no_ack:
        channel.deliver_no_ack += messages
        queue.deliver_no_ack += messages
        of_type.deliver_no_ack += messages
    else:
        channel.deliver += messages
        queue.deliver += messages
        of_type.deliver += messages
    if redelivered:
        channel.redeliver += redelivered
        queue.redeliver += redelivered
        of_type.redeliver += redelivered
