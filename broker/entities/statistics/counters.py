"""RabbitMQ's message statistics: counters of each channel, exchange and queue since it was made.

Counters are always on. They are raised where messages change state, once for all messages of a batch, before the client
is answered: a client that has its confirm finds it counted. Their meaning is RabbitMQ's; docs/management.md has it,
with the differences.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

REASONS = ("rejected", "expired", "maxlen", "delivery_limit")
"""The reasons for which messages die."""
STRATEGIES = ("at_most_once", "at_least_once", "disabled")
"""Dead-letter strategies; `disabled`: the queue has no dead-letter exchange, so its dead messages are dropped."""


class ChannelValues(NamedTuple):
    """Values of one channel's counters, or sums of such values."""

    publish: int = 0
    """Messages published, routed or not; those of a transaction at its commit."""
    publish_confirmed: int = 0
    """Messages published on a channel in confirm mode."""
    confirm: int = 0
    """Messages confirmed by basic.ack, unroutable ones too; basic.nack is not counted."""
    return_unroutable: int = 0
    """Mandatory messages that reached no queue and were returned."""
    drop_unroutable: int = 0
    """Other messages that reached no queue."""
    routed: int = 0
    """Copies put into queues: a message routed to two queues counts twice."""
    deliver: int = 0
    """Deliveries to consumers that acknowledge."""
    deliver_no_ack: int = 0
    """Deliveries to consumers with no-ack."""
    get: int = 0
    """basic.get without no-ack that found a message."""
    get_no_ack: int = 0
    """basic.get with no-ack that found a message."""
    get_empty: int = 0
    """basic.get that found no message."""
    redeliver: int = 0
    """Messages of deliver, deliver_no_ack, get and get_no_ack that had the redelivered flag."""
    ack: int = 0
    """Messages acknowledged by basic.ack; basic.reject and basic.nack are not counted."""


_channel_values = attrgetter(*ChannelValues._fields)


class ChannelCounters:
    """The counters of one channel: see `ChannelValues`."""

    __slots__ = (*ChannelValues._fields, "history")

    history: Any
    """Earlier samples, kept here by the sampler in `broker/management`. The other counters have this too."""

    def __init__(self) -> None:
        self.publish = self.publish_confirmed = self.confirm = 0
        self.return_unroutable = self.drop_unroutable = self.routed = 0
        self.deliver = self.deliver_no_ack = self.redeliver = 0
        self.get = self.get_no_ack = self.get_empty = 0
        self.ack = 0
        self.history = None

    def values(self) -> ChannelValues:
        """Return the present values."""
        return ChannelValues(*_channel_values(self))


class ExchangeCounters:
    """The counters of one exchange.

    `publish_in`: messages that clients published to it; messages routed to it by another exchange count there.
    `publish_out`: copies of these put into queues, directly or by other exchanges; of delayed messages when due.
    `confirm`, `return_unroutable`, `drop_unroutable`: as in `ChannelValues`, of messages published to it.
    """

    __slots__ = ("confirm", "drop_unroutable", "history", "publish_in", "publish_out", "return_unroutable")

    history: Any

    def __init__(self) -> None:
        self.publish_in = self.publish_out = 0
        self.confirm = self.return_unroutable = self.drop_unroutable = 0
        self.history = None


class QueueValues(NamedTuple):
    """Values of one queue's counters."""

    publish: int = 0
    """Messages of clients routed to the queue, even if it refused them; dead letters are not counted."""
    deliver: int = 0
    """This and the next six fields as in `ChannelValues`."""
    deliver_no_ack: int = 0
    get: int = 0
    get_no_ack: int = 0
    get_empty: int = 0
    redeliver: int = 0
    ack: int = 0
    disk_reads: int = 0
    """Messages read back from the store."""
    disk_writes: int = 0
    """Messages written to the store and synced. A message acknowledged before its batch is sealed is never written."""
    rejected: int = 0
    """Messages that died by basic.reject or basic.nack without requeue. This and the next three count dropped ones
    too."""
    expired: int = 0
    """Messages that expired."""
    maxlen: int = 0
    """Messages dropped because of a length limit; with overflow reject-publish-dlx the refused ones."""
    delivery_limit: int = 0
    """Messages that exceeded the delivery limit."""


_queue_values = attrgetter(*QueueValues._fields)


class QueueTypeTotals:
    """Totals of all queues of one type since the start, deleted queues included.

    `dead_lettered` counts by strategy and reason; `dead_letters_confirmed`: at-least-once dead letters that all targets
    accepted.
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
    """The counters of one queue: see `QueueValues`. Whoever raises one raises it in `of_type` too, except `publish`."""

    __slots__ = (*QueueValues._fields, "history", "incoming", "of_type")

    history: Any
    incoming: dict[str, ChannelCounters] | None
    """Publishes by exchange name, with rates_mode detailed only; otherwise None."""

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
        """Return the present values."""
        return QueueValues(*_queue_values(self))

    def read(self, messages: int) -> None:
        """Count messages read back from the store."""
        self.disk_reads += messages
        self.of_type.disk_reads += messages

    def died(self, messages: int, reason: str, strategy: str) -> None:
        """Count messages that died for one of `REASONS`, by one of `STRATEGIES`."""
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
    """Count a basic.get that found a message."""
    for counters in (channel, queue, queue.of_type):
        if no_ack:
            counters.get_no_ack += 1
        else:
            counters.get += 1
        counters.redeliver += redelivered


def count_get_empty(channel: ChannelCounters, queue: QueueCounters) -> None:
    """Count a basic.get that found no message."""
    for counters in (channel, queue, queue.of_type):
        counters.get_empty += 1


def count_deliveries(
    channel: ChannelCounters, queue: QueueCounters, messages: int, redelivered: int, *, no_ack: bool
) -> None:
    """Count messages delivered to a consumer; `redelivered`: the number of those with that flag."""
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
